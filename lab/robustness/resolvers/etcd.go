package resolvers

import (
	"context"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/resolver"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/naming/endpoints"
	"github.com/quorate/quorate/internal/fatal"
	"github.com/quorate/quorate/internal/pause"
	"github.com/quorate/quorate/lab/fault"
	"github.com/quorate/quorate/lab/robustness/client/quorate"
	"github.com/quorate/quorate/resolver/etcd"
)

const (
	// replaceTimeout bounds a change of the registrations, and replacePause is the pause before it is tried again.
	replaceTimeout, replacePause = time.Minute, 50 * time.Millisecond

	prefix = service + "/"
)

// newEtcd returns the cluster of the run, in which the backends are registered.
func newEtcd(t *trial) *source {
	cluster := t.env.Cluster
	// connect is called by one goroutine. The client is closed with the workload.
	connect := func(to []string, opts ...grpc.DialOption) (*clientv3.Client, error) {
		client, err := quorate.Dial(clientv3.Config{Endpoints: to, DialOptions: opts})
		if err == nil {
			t.env.Cleanup(client.Close)
		}
		return client, err
	}
	manager := fatal.OK(endpoints.NewManager(fatal.OK(connect(cluster.DirectEndpoints())), service))
	var listed []string
	s := &source{
		builder: func(removalDelay time.Duration) (resolver.Builder, error) {
			client, err := connect(cluster.Endpoints(), t.countCalls()...)
			if err != nil {
				return nil, err
			}
			return etcd.NewBuilder(client, etcd.Config{MassRemovalDelay: removalDelay})
		},
		targets: []string{"etcd:///" + service},
		list: func(addresses []string) {
			replace(manager, listed, addresses)
			listed = slices.Clone(addresses)
		},
	}
	scene := fault.Scene{Cluster: cluster, Rand: t.rng, Note: t.env.Note, Hold: time.Second}
	for _, f := range fault.ForSoaks() {
		s.faults = append(s.faults, sourceFault{
			name: f.Name,
			begin: func() {
				if err := f.Inject(context.Background(), scene); err != nil {
					t.env.Note(err.Error())
				}
			},
			end: func() { fatal.If(fault.Heal(context.Background(), scene)) },
		})
	}
	return s
}

// replace writes the registrations in one transaction, again if it fails.
func replace(manager endpoints.Manager, old, addresses []string) {
	var updates []*endpoints.UpdateWithOpts
	for _, address := range addresses {
		updates = append(updates, endpoints.NewAddUpdateOpts(prefix+address, endpoints.Endpoint{Addr: address}))
	}
	for _, address := range old {
		if !slices.Contains(addresses, address) {
			updates = append(updates, endpoints.NewDeleteUpdateOpts(prefix+address))
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), replaceTimeout)
	defer cancel()
	err := manager.Update(ctx, updates)
	for err != nil && pause.For(ctx, replacePause) == nil {
		err = manager.Update(ctx, updates)
	}
	fatal.If(err)
}

// countCalls returns the options of a client whose calls and streams count as arrivals.
func (t *trial) countCalls() []grpc.DialOption {
	return []grpc.DialOption{
		grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
			t.arrive(time.Now())
			return invoke(ctx, method, req, reply, cc, opts...)
		}),
		grpc.WithChainStreamInterceptor(func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
			t.arrive(time.Now())
			return open(ctx, desc, cc, method, opts...)
		}),
	}
}
