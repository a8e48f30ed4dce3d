package resolver

import (
	"fmt"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	gresolver "google.golang.org/grpc/resolver"

	_ "github.com/quorate/quorate/balancer/policies"
	"github.com/quorate/quorate/clientv3/naming/internal/registry"
)

func change(i, revision int) registry.Change {
	addr := fmt.Sprintf("127.%d.%d.%d:1", 1+i/65536, i/256%256, i%256)
	return registry.Change{
		Key: "svc/" + addr, Revision: int64(revision),
		Endpoint: registry.Endpoint{Addr: addr, Metadata: map[string]any{"weight": 1.0, "zone": "a"}},
	}
}

// tap is a channel that reports each update before it passes it on.
type tap struct {
	gresolver.ClientConn
	update func(gresolver.State)
}

func (t *tap) UpdateState(s gresolver.State) error {
	t.update(s)
	if t.ClientConn == nil {
		return nil
	}
	return t.ClientConn.UpdateState(s)
}

func (*tap) ReportError(error) {}

// whenComplete calls done at the first list of the given length.
func whenComplete(length int, done func()) func(gresolver.State) {
	return func(s gresolver.State) {
		if len(s.Endpoints) == length {
			done()
			length = -1
		}
	}
}

// serve adds a channel until the end of the benchmark.
func (s *source) serve(b *testing.B, cc gresolver.ClientConn) {
	b.Cleanup(s.Resolve(cc, nil, func() {}).Close)
}

// BenchmarkStorm registers 10,000 servers, one per revision, until 100 channels have the complete
// list.
func BenchmarkStorm(b *testing.B) {
	const servers, channels = 10_000, 100
	for b.Loop() {
		s := newSource("svc", defaultMassRemovalDelay, nil)
		var complete sync.WaitGroup
		for range channels {
			complete.Add(1)
			s.serve(b, &tap{update: whenComplete(servers, complete.Done)})
		}
		for i := range servers {
			s.Changed([]registry.Change{change(i, i+1)})
		}
		complete.Wait()
	}
}

// BenchmarkOneChange changes the weight of one of many endpoints, until 100 channels have it.
func BenchmarkOneChange(b *testing.B) {
	const channels = 100
	for _, servers := range []int{10, 1000} {
		b.Run(fmt.Sprint(servers), func(b *testing.B) {
			s := newSource("svc", defaultMassRemovalDelay, nil)
			var all []registry.Change
			for i := range servers {
				all = append(all, change(i, 1))
			}
			s.Changed(all)
			var waiting sync.WaitGroup
			waiting.Add(channels)
			for range channels {
				seen := 0.0
				s.serve(b, &tap{update: func(s gresolver.State) {
					md, _ := Metadata(s.Endpoints[0]).(map[string]any)
					if weight, _ := md["weight"].(float64); weight > seen {
						seen = weight
						waiting.Done()
					}
				}})
			}
			waiting.Wait()
			for weight := 2; b.Loop(); weight++ {
				waiting.Add(channels)
				c := change(0, weight)
				c.Endpoint.Metadata = map[string]any{"weight": float64(weight), "zone": "a"}
				s.Changed([]registry.Change{c})
				waiting.Wait()
			}
		})
	}
}

// BenchmarkStormThroughAPolicy registers 1,000 servers, until a gRPC channel has the list.
func BenchmarkStormThroughAPolicy(b *testing.B) {
	const servers = 1000
	for _, policy := range []string{"quorate_p2c", "round_robin"} {
		b.Run(policy, func(b *testing.B) {
			for b.Loop() {
				s := newSource("svc", defaultMassRemovalDelay, nil)
				var complete sync.WaitGroup
				complete.Add(1)
				build := builderFunc(func(cc gresolver.ClientConn) {
					s.serve(b, &tap{cc, whenComplete(servers, complete.Done)})
				})
				conn, err := grpc.NewClient("svc:///", grpc.WithResolvers(build), grpc.WithTransportCredentials(insecure.NewCredentials()),
					grpc.WithDefaultServiceConfig(`{"loadBalancingConfig":[{"`+policy+`":{}}]}`))
				if err != nil {
					b.Fatal(err)
				}
				conn.Connect()
				for i := range servers {
					s.Changed([]registry.Change{change(i, i+1)})
				}
				complete.Wait()
				_ = conn.Close()
			}
		})
	}
}

type builderFunc func(gresolver.ClientConn)

func (builderFunc) Scheme() string { return "svc" }
func (f builderFunc) Build(_ gresolver.Target, cc gresolver.ClientConn, _ gresolver.BuildOptions) (gresolver.Resolver, error) {
	f(cc)
	return f, nil
}
func (builderFunc) ResolveNow(gresolver.ResolveNowOptions) {}
func (builderFunc) Close()                                 {}
