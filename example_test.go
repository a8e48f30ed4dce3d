package quorate_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/resolver"

	"github.com/quorate/quorate"
	"github.com/quorate/quorate/health"
	"github.com/quorate/quorate/keepalive"
	"github.com/quorate/quorate/observe"
	"github.com/quorate/quorate/observe/introspect"
	"github.com/quorate/quorate/pool/grpcpool"
	"github.com/quorate/quorate/resolver/dns"
	"github.com/quorate/quorate/resolver/static"
)

// A client of any gRPC service.
func ExampleChannel() {
	creds := insecure.NewCredentials()
	dial := func() error {
		options, err := quorate.Channel{
			TransportCredentials: creds,
			Calls: keepalive.Calls{
				Repeatable: []string{"/billing.Invoices/Get"},
				Once:       []string{"/billing.Invoices/Pay"},
			},
		}.DialOptions()
		if err != nil {
			return err
		}
		conn, err := grpc.NewClient("dns:///billing.shop.svc.cluster.local:8080", options...)
		if err != nil {
			return err
		}
		defer conn.Close()
		fmt.Println(conn.GetState())
		return nil
	}
	if err := dial(); err != nil {
		fmt.Println(err)
	}
	// Output: IDLE
}

// The same over a pool of connections, which takes the credentials itself, with this
// module's resolver and keepalive for both ends.
func ExampleChannel_pool() {
	creds := insecure.NewCredentials()
	dial := func() error {
		names, err := dns.NewBuilder(dns.Config{}) // one for the process: channels share lookups
		if err != nil {
			return err
		}
		options, err := quorate.Channel{Keepalive: keepalive.Datacenter().Pair()}.DialOptions()
		if err != nil {
			return err
		}
		conn, err := grpcpool.NewClient("dns:///billing.shop.svc.cluster.local:8080",
			grpcpool.Config{TransportCredentials: creds}, append(options, grpc.WithResolvers(names))...)
		if err != nil {
			return err
		}
		return conn.Close()
	}
	fmt.Println(dial())
	// Output: <nil>
}

// states prints what becomes of the backends.
type states struct{ observe.None }

func (states) EndpointsSet(backends []string)    { fmt.Println(backends) }
func (states) StateChanged(change health.Change) { fmt.Println(change.Endpoint, change.To) }

// An observer of a channel, which may be one of observe/prometheus or observe/otel.
func ExampleChannel_observer() {
	creds, observer := insecure.NewCredentials(), states{}
	names, err := static.NewBuilder(static.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	options, err := quorate.Channel{
		TransportCredentials: creds,
		Resolvers:            []resolver.Builder{names},
		Observer:             observer,
	}.DialOptions()
	if err != nil {
		fmt.Println(err)
		return
	}
	conn, err := grpc.NewClient("static:///10.0.0.1:80,10.0.0.2:80", append(options, grpc.WithContextDialer(refuse))...)
	if err != nil {
		fmt.Println(err)
		return
	}
	conn.Connect()
	defer conn.Close()
}

func refuse(context.Context, string) (net.Conn, error) { return nil, errors.New("refused") }

// Operators see the backends of a channel with state, evidence and share of the calls.
func ExampleChannel_report() {
	creds, billing := insecure.NewCredentials(), new(introspect.Channels)
	mux := http.NewServeMux()
	mux.Handle("/debug/clients", introspect.Handler(introspect.Options{}, map[string]introspect.Source{"billing": billing}))
	names, err := static.NewBuilder(static.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	options, err := quorate.Channel{
		TransportCredentials: creds,
		Resolvers:            []resolver.Builder{names},
		Report:               billing,
	}.DialOptions()
	if err != nil {
		fmt.Println(err)
		return
	}
	conn, err := grpc.NewClient("static:///10.0.0.1:80,10.0.0.2:80", append(options, grpc.WithContextDialer(refuse))...)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer conn.Close()
	conn.Connect() // as a call does

	w := httptest.NewRecorder()
	mux.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/debug/clients", nil))
	var report introspect.Report
	if err := json.Unmarshal(w.Body.Bytes(), &report); err != nil {
		fmt.Println(err)
		return
	}
	for _, c := range report.Clients {
		fmt.Println(c.Name, c.Target, c.Ready)
	}
	// Output: billing static:///10.0.0.1:80,10.0.0.2:80 false
}

// Frameworks that call grpc.NewClient themselves find a resolver that is registered for its
// scheme, in place of gRPC's own.
func ExampleChannel_register() {
	names, err := dns.NewBuilder(dns.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	before := resolver.Get("dns")
	resolver.Register(names) // at the start of the program: it is for all channels
	resolver.Register(before)
}
