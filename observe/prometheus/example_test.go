package prometheus_test

import (
	"context"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/health"
	"github.com/quorate/quorate/observe"
	quorateprom "github.com/quorate/quorate/observe/prometheus"
	"github.com/quorate/quorate/pool"
	"github.com/quorate/quorate/pool/grpcpool"
)

// The client gets its observer once, and reports to it while it lives.
func Example() {
	endpoints := []string{"10.0.0.1:2379"}
	serve := func() error {
		observer, err := quorateprom.New(prometheus.DefaultRegisterer, quorateprom.Options{Client: "orders"})
		if err != nil {
			return err
		}
		defer observer.Close()
		client, err := clientv3.New(clientv3.Config{Endpoints: endpoints, Observer: observer})
		if err != nil {
			return err
		}
		return client.Close()
	}
	fmt.Println(serve())
	// Output: <nil>
}

func ExampleNew() {
	registry := prometheus.NewRegistry()
	observer, err := quorateprom.New(registry, quorateprom.Options{Client: "orders"})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer observer.Close()

	// Given to a client as Config.Observer, these are its events:
	observer.EndpointsSet([]string{"10.0.0.1:2379"})
	observer.StateChanged(health.Change{Endpoint: "10.0.0.1:2379", To: health.Serving})
	observer.Retried(observe.Retry{Method: "/etcdserverpb.KV/Range", Class: "NotSent"})

	families, err := registry.Gather()
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, family := range families {
		fmt.Println(family.GetName())
	}
	// Output:
	// quorate_client_endpoint_state
	// quorate_client_endpoint_state_changes_total
	// quorate_client_leases_lost_total
	// quorate_client_retries_total
	// quorate_client_watches_resumed_total
}

func ExampleNewPoolCollector() {
	sessions, err := pool.New(pool.Config[string]{Create: func(context.Context) (string, error) { return "session", nil }, MaxSize: 10})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer sessions.Close()
	conn, err := grpcpool.NewClient("dns:///backend:8080", grpcpool.Config{TransportCredentials: insecure.NewCredentials()})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer conn.Close()
	registry := prometheus.NewRegistry()
	registry.MustRegister(quorateprom.NewPoolCollector("sessions", sessions.Stats))
	registry.MustRegister(quorateprom.NewConnectionPoolCollector("backend", conn.Stats))
	families, err := registry.Gather()
	fmt.Println(len(families) > 0, err)
	// Output: true <nil>
}

// A client that has the observer reports its present state too.
func ExampleObserver_Attach() {
	registry := prometheus.NewRegistry()
	observer, err := quorateprom.New(registry, quorateprom.Options{Client: "orders"})
	if err != nil {
		fmt.Println(err)
		return
	}
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{"10.0.0.1:2379"}, Observer: observer})
	if err != nil {
		fmt.Println(err)
		return
	}
	ready := func() {
		families, err := registry.Gather()
		if err != nil {
			fmt.Println(err)
			return
		}
		for _, family := range families {
			if family.GetName() == "quorate_client_ready" {
				fmt.Println(family.GetName(), family.GetMetric()[0].GetGauge().GetValue())
				return
			}
		}
		fmt.Println("no client")
	}
	ready()
	if err := client.Close(); err != nil {
		fmt.Println(err)
		return
	}
	ready()
	// Output:
	// quorate_client_ready 0
	// no client
}
