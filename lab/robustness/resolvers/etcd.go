package resolvers

import (
	"context"
	"errors"
	"slices"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/stats"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/naming/endpoints"
	"github.com/quorate/quorate/lab/fault"
	"github.com/quorate/quorate/lab/internal/fatal"
	"github.com/quorate/quorate/lab/robustness/client/quorate"
	"github.com/quorate/quorate/resolver/etcd"
)

const (
	// healTimeout bounds a change of the registrations, and the beginning and the end of a fault.
	healTimeout = time.Minute
	prefix      = service + "/"
)

// registrations are the backends in the cluster of the run.
type registrations struct {
	scene   fault.Scene
	direct  *clientv3.Client // past the links
	manager endpoints.Manager
	listed  []string
}

// newEtcd returns the cluster of the run, in which the backends are registered.
func newEtcd(t *trial) *source {
	cluster := t.env.Cluster
	s := &registrations{scene: fault.Scene{Cluster: cluster, Rand: t.rng, Note: t.env.Note, Hold: time.Second}}
	members := make([]string, len(cluster.Members()))
	for i, m := range cluster.Members() {
		members[i] = m.DirectEndpoint()
	}
	// connect is called by one goroutine. The client is closed with the workload.
	connect := func(to []string, opts ...grpc.DialOption) (*clientv3.Client, error) {
		client, err := quorate.Dial(clientv3.Config{Endpoints: to, DialOptions: opts})
		if err == nil {
			t.env.Cleanup(client.Close)
		}
		return client, err
	}
	s.direct = fatal.OK(connect(members))
	s.manager = fatal.OK(endpoints.NewManager(s.direct, service))
	result := &source{
		builder: func(removalDelay time.Duration) (resolver.Builder, []string, error) {
			client, err := connect(cluster.Endpoints(), grpc.WithStatsHandler(arriving{&t.arrived}))
			if err != nil {
				return nil, nil, err
			}
			b, err := etcd.NewBuilder(client, etcd.Config{MassRemovalDelay: removalDelay})
			return b, []string{"etcd:///" + service}, err
		},
		list: s.list,
	}
	for _, f := range fault.ForSoaks() {
		begin := func() {
			if err := within(func(ctx context.Context) error { return f.Inject(ctx, s.scene) }); err != nil {
				t.env.Note(err.Error())
			}
		}
		result.faults = append(result.faults, sourceFault{name: f.Name, keepsList: true, begin: begin, end: s.heal})
	}
	cut := func() {
		for _, m := range cluster.Members() {
			cluster.ClientLink(m).Cut()
		}
	}
	result.faults = append(result.faults, sourceFault{name: "clients-cut-compacted", begin: cut, end: func() {
		s.compact()
		s.heal()
	}})
	return result
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
		repeat(func(ctx context.Context) error { return s.manager.Update(ctx, updates) })
		s.listed = slices.Clone(addresses)
	}
}

// compact forgets all history, again if its outcome is unknown.
func (s *registrations) compact() {
	repeat(func(ctx context.Context) error {
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

func (s *registrations) heal() {
	fatal.If(within(func(ctx context.Context) error { return fault.Heal(ctx, s.scene) }))
}

// within does something with a context of healTimeout.
func within(do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), healTimeout)
	defer cancel()
	return do(ctx)
}

// repeat does something until it succeeds, for as long as healTimeout.
func repeat(do func(context.Context) error) {
	fatal.If(within(func(ctx context.Context) (err error) {
		for err = do(ctx); err != nil && ctx.Err() == nil; {
			err = do(ctx)
		}
		return err
	}))
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
