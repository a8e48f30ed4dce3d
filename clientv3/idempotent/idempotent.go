package idempotent

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync/atomic"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/internal/lineage"
	"github.com/quorate/quorate/clientv3/internal/optxn"
	"github.com/quorate/quorate/clientv3/internal/semantics"
	"github.com/quorate/quorate/internal/channel"
	"github.com/quorate/quorate/observe"
	"github.com/quorate/quorate/retry"
)

// Defaults of a Config.
const (
	DefaultPrefix = "_lanes/"
	DefaultLanes  = 64
	DefaultTTL    = 60
)

// maxLanes bounds Config.Lanes: KV.Close waits for each.
const maxLanes = 1 << 16

// Config says where the lanes are. A zero field has its default.
type Config struct {
	// Prefix is the prefix of the keys of lanes. The user needs permission to read and write all of it. It is
	// reserved for lanes: a write of the program that includes such keys is refused. Default "_lanes/".
	Prefix string
	// Lanes is how many writes can be under way at the same time; further ones wait. A lane is made when it is
	// first needed. Default 64, at most 65,536.
	Lanes int
	// TTL is the TTL of the lanes' lease, in seconds. It is how long the lanes of a program that died remain, and
	// for how long an outcome can be found out after an answer was lost. Default 60.
	TTL int64
}

func (c Config) complete() (Config, error) {
	c.Prefix, c.Lanes, c.TTL = cmp.Or(c.Prefix, DefaultPrefix), cmp.Or(c.Lanes, DefaultLanes), cmp.Or(c.TTL, DefaultTTL)
	switch {
	case c.Lanes < 0 || c.Lanes > maxLanes:
		return c, fmt.Errorf("idempotent: Config.Lanes is %d: set the number of writes that may be under way, at most %d, or 0 for %d", c.Lanes, maxLanes, DefaultLanes)
	case c.TTL < 0 || c.TTL > clientv3.MaxLeaseTTL:
		return c, fmt.Errorf("idempotent: Config.TTL is %d: set seconds, at most %d, or 0 for %d", c.TTL, int64(clientv3.MaxLeaseTTL), DefaultTTL)
	}
	return c, nil
}

type kv = optxn.KV

// KV is a clientv3.KV whose writes are sent until their outcome is known, and executed once at most. It is made by
// [New], and safe for concurrent use. Gets, read-only transactions, GetStream and Compact are those of the client.
type KV struct {
	kv // executes each call by execute

	plain clientv3.KV
	// lanes sends what may be repeated.
	lanes  clientv3.KV
	cfg    Config
	keys   semantics.Range // of lanes
	pool   *pool
	pacing retry.Policy

	counters counters

	tracker *lineage.Tracker
	history *lineage.History // that the lanes belong to
}

// New returns a KV that writes through lanes; see the package documentation. Assign it to client.KV to use it for
// all writes of the client, and call [KV.Close] before Close of the client. It uses the connection of the client
// and not client.KV: packages namespace and batch are layered over it.
//
// New makes a lease and a lane, and tries the lane once, so it returns an error if the server cannot execute such
// transactions (kine), or the user may not. ctx bounds only that. An error may also name a field of cfg.
func New(ctx context.Context, client *clientv3.Client, cfg Config) (*KV, error) {
	cfg, err := cfg.complete()
	if err != nil {
		return nil, err
	}
	k := &KV{
		plain: clientv3.NewKV(client), cfg: cfg, keys: semantics.Range{Key: cfg.Prefix, End: clientv3.GetPrefixRangeEnd(cfg.Prefix)},
		tracker: lineage.New(func(c *lineage.Change) error { return (*clientv3.ClusterChangedError)(c) }),
	}
	k.kv = optxn.Over(k.plain, k.execute)
	k.lanes = clientv3.NewKVFromKVClient(laneClient{clientv3.RetryKVClient(client)}, client)
	k.pool = &pool{
		client: client, cfg: cfg, leases: &k.counters.leases, slots: make(chan struct{}, cfg.Lanes),
		closed: make(chan struct{}), opening: make(chan struct{}, 1),
	}
	k.history = k.tracker.History()
	if err := k.try(ctx); err != nil {
		_ = k.pool.close(ctx.Err() == nil) // the caller gets the first error
		return nil, fmt.Errorf("idempotent: no lane can be used below %q: %w", cfg.Prefix, err)
	}
	return k, nil
}

// try makes a lane and a write of nothing, of the most general form.
func (k *KV) try(ctx context.Context) error {
	none := clientv3.Compare(clientv3.CreateRevision(k.cfg.Prefix), "=", 0)
	get := []clientv3.Op{clientv3.OpGet(k.cfg.Prefix, clientv3.WithCountOnly())}
	_, err := k.write(ctx, clientv3.OpTxn([]clientv3.Cmp{none}, get, get))
	return err
}

// laneClient sends a Txn that may be repeated. The context has the flag for channel.Repeatable.
type laneClient struct{ pb.KVClient }

type unsureKey struct{}

func (c laneClient) Txn(ctx context.Context, req *pb.TxnRequest, opts ...grpc.CallOption) (*pb.TxnResponse, error) {
	if unsure, ok := ctx.Value(unsureKey{}).(*atomic.Bool); ok {
		opts = append(append([]grpc.CallOption(nil), opts...), channel.Repeatable(unsure))
	}
	return c.KVClient.Txn(ctx, req, opts...)
}

// execute executes an operation: a write once, and a read as the client does.
func (k *KV) execute(ctx context.Context, op clientv3.Op) (clientv3.OpResponse, error) {
	writes := optxn.Writes(op)
	if len(writes) == 0 {
		return k.plain.Do(ctx, op)
	}
	for _, w := range writes {
		if semantics.Of(w.KeyBytes(), w.RangeBytes()).Overlaps(k.keys) {
			return clientv3.OpResponse{}, status.Errorf(codes.InvalidArgument, // so a group of package batch is divided
				"idempotent: the write of %q includes keys below %q, which are lanes: use another key or range, or set Config.Prefix", w.KeyBytes(), k.cfg.Prefix)
		}
	}
	return k.write(ctx, op)
}

// Close waits for the writes under way, and ends the lease, which deletes the lanes. Writes after it fail with a
// *retry.NotSentError. If no member answers, Close waits until the TTL has passed, and for the writes under way until their
// contexts end: those without a deadline hold Close until a member answers; close the client to end them. Without
// Close, the lease ends a TTL after the client or the program.
func (k *KV) Close() error { return k.pool.close(true) }

var errClosed = errors.New("idempotent: the KV is closed")

// recordSize is the size of a record: an id, and the branch.
const recordSize = 9

func newRecord(id id, branch bool) string {
	value := binary.BigEndian.AppendUint64(make([]byte, 0, recordSize), uint64(id))
	if branch {
		return string(append(value, 1))
	}
	return string(append(value, 0))
}

// parseRecord reads a record. For a value that is no record it returns id 0, which no request has.
func parseRecord(value []byte) (id, bool) {
	if len(value) != recordSize {
		return 0, false
	}
	return id(binary.BigEndian.Uint64(value)), value[recordSize-1] == 1
}

// counters count the writes of a KV by how they ended.
type counters struct {
	executed, notExecuted, unknown atomic.Int64
	// settled counts executed writes whose answer was lost, leases the leases that were made.
	settled, leases atomic.Int64
}

func (c *counters) ended(r result) {
	switch r.verdict {
	case executed:
		c.executed.Add(1)
		if r.record != nil {
			c.settled.Add(1)
		}
	case notExecuted:
		c.notExecuted.Add(1)
	default:
		c.unknown.Add(1)
	}
}

var _ observe.MetricSource = (*KV)(nil)

// Metrics returns how many writes there were and how they ended, and what is in use, for observe/prometheus,
// observe/otel and other metrics libraries. A write that could not be sent has none.
func (k *KV) Metrics() []observe.Metric {
	c := &k.counters
	writes := func(outcome string, n *atomic.Int64) observe.Metric {
		return observe.Counter("quorate.idempotent.writes", "{write}", "Writes that have ended, by outcome.", float64(n.Load())).By("outcome", outcome)
	}
	return []observe.Metric{
		writes("executed", &c.executed), writes("not executed", &c.notExecuted), writes("unknown", &c.unknown),
		observe.Counter("quorate.idempotent.settled", "{write}", "Executed writes whose answer was lost.", float64(c.settled.Load())),
		observe.Counter("quorate.idempotent.leases", "{lease}", "Leases that were made for lanes: one, and one more for each that was lost.", float64(c.leases.Load())),
		observe.Gauge("quorate.idempotent.lanes", "{lane}", "Lanes in use: writes under way.", float64(len(k.pool.slots))),
		observe.Gauge("quorate.idempotent.lane_limit", "{lane}", "How many lanes can be in use.", float64(cap(k.pool.slots))),
	}
}
