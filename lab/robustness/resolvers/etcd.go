package resolvers

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/stats"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/naming/endpoints"
	"github.com/quorate/quorate/lab/fault"
	"github.com/quorate/quorate/lab/internal/fatal"
	"github.com/quorate/quorate/lab/robustness"
	"github.com/quorate/quorate/resolver/etcd"
)

const (
	// dialTimeout is what the clients are configured with.
	dialTimeout = 5 * time.Second
	// writeTimeout bounds a change of the registrations, and healTimeout the end of a fault.
	writeTimeout, healTimeout = 15 * time.Second, time.Minute
	prefix                    = service + "/"
)

// registrations are the backends in the cluster of the run.
type registrations struct {
	scene   fault.Scene
	direct  *clientv3.Client // past the links
	manager endpoints.Manager
	listed  []string

	mu      sync.Mutex
	clients []*clientv3.Client
}

// newEtcd returns the cluster of the run, in which the backends are registered.
func newEtcd(env *robustness.Env, rng *rand.Rand, arrived *log) (*source, error) {
	s := &registrations{scene: fault.Scene{Cluster: env.Cluster, Rand: rng, Note: env.Note, Hold: time.Second}}
	members := make([]string, len(env.Cluster.Members()))
	for i, m := range env.Cluster.Members() {
		members[i] = m.DirectEndpoint()
	}
	var err error
	if s.direct, err = s.connect(members); err != nil {
		return nil, err
	}
	s.manager, err = endpoints.NewManager(s.direct, service)
	return &source{
		builder: func(removalDelay time.Duration) (resolver.Builder, []string, error) {
			client, err := s.connect(env.Cluster.Endpoints(), grpc.WithStatsHandler(arriving{arrived}))
			if err != nil {
				return nil, nil, err
			}
			b, err := etcd.NewBuilder(client, etcd.Config{MassRemovalDelay: removalDelay})
			return b, []string{"etcd:///" + service}, err
		},
		list: s.list, faults: s.faults(), close: s.close,
	}, err
}

// connect connects a client, which is closed with the source.
func (s *registrations) connect(to []string, opts ...grpc.DialOption) (*clientv3.Client, error) {
	client, err := clientv3.New(clientv3.Config{Endpoints: to, DialTimeout: dialTimeout, Logger: zap.NewNop(), DialOptions: opts})
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clients = append(s.clients, client)
	return client, nil
}

// list writes the registrations in one transaction, again if its outcome is unknown.
func (s *registrations) list(addresses []string) {
	var updates []*endpoints.UpdateWithOpts
	for _, address := range addresses {
		if !slices.Contains(s.listed, address) {
			updates = append(updates, endpoints.NewAddUpdateOpts(prefix+address, endpoints.Endpoint{Addr: address}))
		}
	}
	for _, address := range s.listed {
		if !slices.Contains(addresses, address) {
			updates = append(updates, endpoints.NewDeleteUpdateOpts(prefix+address))
		}
	}
	if len(updates) > 0 {
		fatal.If(repeat(writeTimeout, func(ctx context.Context) error { return s.manager.Update(ctx, updates) }))
		s.listed = slices.Clone(addresses)
	}
}

func (s *registrations) faults() []sourceFault {
	var all []sourceFault
	for _, f := range fault.ForSoaks() {
		all = append(all, sourceFault{
			name: f.Name,
			begin: func() error {
				return within(healTimeout, func(ctx context.Context) error { return f.Inject(ctx, s.scene) })
			},
			end: s.heal,
		})
	}
	return append(all, sourceFault{name: "clients-cut-compacted", changeable: true, begin: s.cut, end: func() error {
		return errors.Join(s.compact(), s.heal())
	}})
}

func (s *registrations) cut() error {
	for _, m := range s.scene.Cluster.Members() {
		s.scene.Cluster.ClientLink(m).Cut()
	}
	return nil
}

// compact forgets all history, again if its outcome is unknown.
func (s *registrations) compact() error {
	return repeat(healTimeout, func(ctx context.Context) error {
		now, err := s.direct.Get(ctx, prefix, clientv3.WithCountOnly())
		if err == nil {
			_, err = s.direct.Compact(ctx, now.Header.Revision)
		}
		if errors.Is(err, rpctypes.ErrCompacted) {
			return nil
		}
		return err
	})
}

func (s *registrations) heal() error {
	return within(healTimeout, func(ctx context.Context) error { return fault.Heal(ctx, s.scene) })
}

func within(timeout time.Duration, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	return do(ctx)
}

// repeat does something until it succeeds, or the timeout has passed.
func repeat(timeout time.Duration, do func(context.Context) error) error {
	return within(timeout, func(ctx context.Context) error {
		for {
			if err := do(ctx); err == nil || ctx.Err() != nil {
				return err
			}
		}
	})
}

func (s *registrations) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var err error
	for _, c := range s.clients {
		err = errors.Join(err, c.Close())
	}
	return err
}

// arriving notes the connections and the requests of a client.
type arriving struct{ log *log }

func (a arriving) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context { return ctx }

func (a arriving) HandleRPC(_ context.Context, s stats.RPCStats) {
	if _, ok := s.(*stats.OutPayload); ok {
		a.log.add(time.Now())
	}
}

func (a arriving) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }

func (a arriving) HandleConn(_ context.Context, s stats.ConnStats) {
	if _, ok := s.(*stats.ConnBegin); ok {
		a.log.add(time.Now())
	}
}
