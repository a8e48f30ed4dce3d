package resolvers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/stats"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/lab"
	"github.com/quorate/quorate/lab/fault"
	"github.com/quorate/quorate/resolver/etcd"
)

const (
	// dialTimeout is what the clients are configured with.
	dialTimeout = 5 * time.Second
	// writeTimeout bounds a change of the registrations, and healTimeout the end of a fault.
	writeTimeout, healTimeout = 15 * time.Second, time.Minute
	prefix                    = service + "/"
)

// etcdSource is a cluster in which the backends are registered.
type etcdSource struct {
	cluster *lab.Cluster
	scene   fault.Scene
	log     log

	mu      sync.Mutex
	clients []*clientv3.Client
}

func newEtcd(ctx context.Context, cfg Config, rng *rand.Rand, note func(string)) (source, error) {
	cluster, err := lab.Start(ctx, lab.Config{Members: cfg.Members, Dir: cfg.Dir})
	if err != nil {
		return nil, fmt.Errorf("start the cluster: %w", err)
	}
	return &etcdSource{cluster: cluster, scene: fault.Scene{Cluster: cluster, Rand: rng, Note: note, Hold: time.Second}}, nil
}

func (s *etcdSource) builder(removalDelay time.Duration) (resolver.Builder, []string, error) {
	client, err := clientv3.New(clientv3.Config{
		Endpoints: s.cluster.Endpoints(), DialTimeout: dialTimeout, Logger: zap.NewNop(),
		DialOptions: []grpc.DialOption{grpc.WithStatsHandler(arriving{&s.log})},
	})
	if err != nil {
		return nil, nil, err
	}
	s.mu.Lock()
	s.clients = append(s.clients, client)
	s.mu.Unlock()
	b, err := etcd.NewBuilder(client, etcd.Config{MassRemovalDelay: removalDelay})
	return b, []string{"etcd:///" + service}, err
}

// list writes the registrations, past the links.
func (s *etcdSource) list(addresses []string) error {
	ctx, cancel := context.WithTimeout(context.Background(), writeTimeout)
	defer cancel()
	var last error
	for _, m := range append(s.cluster.Members(), s.cluster.Members()...) {
		if last = write(ctx, pb.NewKVClient(m.Conn()), addresses); last == nil {
			return nil
		}
	}
	return last
}

// write puts what is missing and deletes what is too much, in one transaction.
func write(ctx context.Context, kv pb.KVClient, addresses []string) error {
	had, err := kv.Range(ctx, &pb.RangeRequest{Key: []byte(prefix), RangeEnd: []byte(clientv3.GetPrefixRangeEnd(prefix)), KeysOnly: true})
	if err != nil {
		return err
	}
	txn := &pb.TxnRequest{}
	known := make(map[string]bool)
	for _, pair := range had.Kvs {
		known[string(pair.Key)] = true
		if !slices.Contains(addresses, string(pair.Key[len(prefix):])) {
			txn.Success = append(txn.Success, &pb.RequestOp{Request: &pb.RequestOp_RequestDeleteRange{
				RequestDeleteRange: &pb.DeleteRangeRequest{Key: pair.Key},
			}})
		}
	}
	for _, address := range addresses {
		if known[prefix+address] {
			continue
		}
		value, err := json.Marshal(struct{ Addr string }{address})
		if err != nil {
			return err
		}
		txn.Success = append(txn.Success, &pb.RequestOp{Request: &pb.RequestOp_RequestPut{
			RequestPut: &pb.PutRequest{Key: []byte(prefix + address), Value: value},
		}})
	}
	_, err = kv.Txn(ctx, txn)
	return err
}

func (s *etcdSource) faults() []disturbance {
	all := falseLists()
	for _, f := range fault.Disturbances() {
		all = append(all, disturbance{
			name:  f.Name,
			begin: func() error { return within(func(ctx context.Context) error { return f.Inject(ctx, s.scene) }) },
			end:   s.heal,
		})
	}
	return append(all, disturbance{name: "clients-cut-compacted", open: true, begin: s.cut, end: func() error {
		return errors.Join(s.compact(), s.heal())
	}})
}

func (s *etcdSource) cut() error {
	for _, m := range s.cluster.Members() {
		s.cluster.ClientLink(m).Cut()
	}
	return nil
}

// compact forgets all history.
func (s *etcdSource) compact() error {
	return within(func(ctx context.Context) error {
		kv := pb.NewKVClient(s.cluster.Members()[0].Conn())
		now, err := kv.Range(ctx, &pb.RangeRequest{Key: []byte(prefix), CountOnly: true})
		if err != nil {
			return err
		}
		_, err = kv.Compact(ctx, &pb.CompactionRequest{Revision: now.Header.Revision})
		return err
	})
}

func (s *etcdSource) heal() error {
	return within(func(ctx context.Context) error { return fault.Heal(ctx, s.scene) })
}

func within(do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), healTimeout)
	defer cancel()
	return do(ctx)
}

func (s *etcdSource) patience() time.Duration { return 0 }

func (s *etcdSource) arrivals() []time.Time { return s.log.all() }

func (s *etcdSource) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var err error
	for _, c := range s.clients {
		err = errors.Join(err, c.Close())
	}
	return errors.Join(err, s.cluster.Close())
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
