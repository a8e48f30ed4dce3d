package batch

import (
	"cmp"
	"context"
	"math/bits"

	"google.golang.org/grpc/metadata"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/internal/optxn"
	"github.com/quorate/quorate/observe"
	"github.com/quorate/quorate/retry"
)

// Defaults of a Config.
const (
	DefaultMaxAlone = 8
	DefaultMaxOps   = 128
	DefaultMaxBytes = 1 << 20
)

const (
	// maxJoinedLimit is the largest limit of a range that is joined.
	maxJoinedLimit = 100
	// maxGroupedBytes is the size of the largest write that is grouped. Sending a larger
	// one takes longer than the rest of the call.
	maxGroupedBytes = 64 << 10
	// opOverhead is more than what an operation adds to the size of key and value.
	opOverhead = 64
)

// Config says what is shared. A number that is 0 or less has its default.
type Config struct {
	// JoinReads lets linearizable gets share RPCs.
	JoinReads bool
	// GroupWrites lets puts, and deletes of one key, share RPCs and so a revision; see
	// the package documentation.
	GroupWrites bool
	// MaxAlone is how many calls are sent alone at a time, of gets, puts and deletes each, where a
	// round trip takes up to 2 ms; in proportion more where it takes longer, up to 16 times as
	// many at 32 ms. Further ones wait and share RPCs. Default 8.
	MaxAlone int
	// MaxOps bounds the operations of an RPC. Default 128, which is etcd's --max-txn-ops.
	MaxOps int
	// MaxBytes bounds the keys and values in a request. Default 1 MiB, two thirds
	// of etcd's --max-request-bytes.
	MaxBytes int
}

func (c Config) complete() Config {
	c.MaxAlone = cmp.Or(max(c.MaxAlone, 0), DefaultMaxAlone)
	c.MaxOps = cmp.Or(max(c.MaxOps, 0), DefaultMaxOps)
	c.MaxBytes = cmp.Or(max(c.MaxBytes, 0), DefaultMaxBytes)
	return c
}

type kv = optxn.KV

// KV is a clientv3.KV whose gets, puts and deletes share RPCs. It is made by [New].
type KV struct {
	kv // executes each call by execute

	under clientv3.KV
	reads *dispatcher // nil if reads are not joined
	puts  *dispatcher // nil if writes are not grouped
	// deletes travel without puts, which a store that is full refuses.
	deletes *dispatcher
}

// New returns a KV whose calls share the RPCs of under as cfg says. It is safe for
// concurrent use. Calls that share nothing go to under.Do.
//
// under may be a *clientv3.Client: New then uses the present KV of the client, so that
// the result can replace it.
func New(under clientv3.KV, cfg Config) *KV {
	if c, ok := under.(*clientv3.Client); ok {
		under = c.KV
	}
	cfg = cfg.complete()
	k := &KV{under: under}
	k.kv = optxn.Over(under, k.execute)
	if cfg.JoinReads {
		k.reads = newDispatcher(under, cfg, joined)
	}
	if cfg.GroupWrites {
		k.puts, k.deletes = newDispatcher(under, cfg, grouped), newDispatcher(under, cfg, grouped)
	}
	return k
}

// execute executes an operation, together with others if that is possible.
func (k *KV) execute(ctx context.Context, op clientv3.Op) (clientv3.OpResponse, error) {
	d := k.dispatcherOf(op)
	if err := ctx.Err(); err != nil && d != nil && d.kind == grouped {
		return clientv3.OpResponse{}, &retry.NotSentError{Err: err}
	}
	if d == nil || len(op.KeyBytes()) == 0 || ctx.Err() != nil || hasMetadata(ctx) {
		return k.under.Do(ctx, op)
	}
	return d.do(ctx, op)
}

// dispatcherOf returns the dispatcher of an operation, nil if it is sent as it is.
func (k *KV) dispatcherOf(op clientv3.Op) *dispatcher {
	switch {
	case op.IsGet() && joinable(op):
		return k.reads
	case op.IsPut() && len(op.KeyBytes())+len(op.ValueBytes()) <= maxGroupedBytes:
		return k.puts
	case op.IsDelete() && op.RangeBytes() == nil:
		return k.deletes
	default:
		return nil
	}
}

// joinable reports whether a get has a small response that depends on nothing but the
// latest revision. A sort or a filter makes the server read all of a range, whatever the limit.
func joinable(op clientv3.Op) bool {
	small := op.RangeBytes() == nil || op.IsCountOnly() || op.Limit() > 0 && op.Limit() <= maxJoinedLimit
	plain := !op.IsSerializable() && op.Rev() == 0 && !op.IsSortSet() &&
		op.MinModRev() == 0 && op.MaxModRev() == 0 && op.MinCreateRev() == 0 && op.MaxCreateRev() == 0
	return small && plain
}

func hasMetadata(ctx context.Context) bool {
	md, ok := metadata.FromOutgoingContext(ctx)
	return ok && len(md) > 0
}

// sizeClasses names the size classes of RPCs, each by the most calls that an RPC of it has.
var sizeClasses = [...]string{"1", "4", "16", "64", "256", "more"}

type counters struct {
	calls, refused int64
	rpcs           [len(sizeClasses)]int64
}

// sent counts an RPC that callers share.
func (c *counters) sent(callers int) {
	c.rpcs[min((bits.Len(uint(callers-1))+1)/2, len(sizeClasses)-1)]++
}

// Metrics returns the number of calls, of RPCs by size, and of waiting calls, for observe/prometheus,
// observe/otel and other metrics libraries.
func (k *KV) Metrics() []observe.Metric {
	var all []observe.Metric
	for _, of := range []struct {
		kind string
		*dispatcher
	}{{"get", k.reads}, {"put", k.puts}, {"delete", k.deletes}} {
		if of.dispatcher != nil {
			all = append(all, of.metrics(of.kind)...)
		}
	}
	return all
}

func (d *dispatcher) metrics(kind string) []observe.Metric {
	d.mu.Lock()
	counted, waiting := d.counted, 0
	for _, c := range d.queue {
		waiting += c.callers
	}
	d.mu.Unlock()
	all := make([]observe.Metric, 0, 3+len(sizeClasses))
	all = append(all,
		observe.Counter("quorate.batch.calls", "{call}", "Calls that may share an RPC.", float64(counted.calls)),
		observe.Counter("quorate.batch.refused", "{rpc}", "Shared RPCs that failed and whose calls were sent again, gets alone and writes in parts.", float64(counted.refused)),
		observe.Gauge("quorate.batch.waiting", "{call}", "Calls that wait to be sent.", float64(waiting)),
	)
	for i, n := range counted.rpcs {
		all = append(all, observe.Counter("quorate.batch.rpcs", "{rpc}", "RPCs of the calls, by the most calls that one of the size has.", float64(n)).
			By("size", sizeClasses[i]))
	}
	for i := range all {
		all[i] = all[i].By("kind", kind)
	}
	return all
}
