package batch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/bits"
	"runtime"
	"slices"
	"strings"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/internal/optxn"
	"github.com/quorate/quorate/clientv3/internal/reply"
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
		observe.Counter("quorate.batch.refused", "{rpc}", "Shared RPCs of gets that failed, and of writes that were refused and sent again in parts.", float64(counted.refused)),
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

// batch is an RPC that calls share.
type batch struct {
	calls   []*call
	ctx     context.Context
	cancel  context.CancelFunc
	callers int // callers that wait for it; guarded by dispatcher.mu
}

// open returns the context of a batch. It ends soon after the last deadline of its callers, if all have one: until
// then a group is tried again while the cluster refuses it, as each of its writes would be. It ends at once when the
// last caller leaves; each leaves with the error of its own context.
func (b *batch) open() (context.Context, context.CancelFunc) {
	var last time.Time
	for _, c := range b.calls {
		if c.until.IsZero() {
			return context.WithCancel(context.Background())
		}
		if c.until.After(last) {
			last = c.until
		}
	}
	return context.WithDeadline(context.Background(), last.Add(afterLast))
}

// takeLocked takes the next batch out of the queue. No call can join it from here on,
// and it is sent from here on.
func (d *dispatcher) takeLocked() *batch {
	ops := d.opsLocked()
	b := &batch{calls: make([]*call, 0, min(ops, len(d.queue)))}
	taken, bytes := 0, 0
	for _, c := range d.queue {
		if c.callers > 0 {
			full := len(b.calls) == ops || len(b.calls) > 0 && bytes+c.bytes > d.maxBytes
			if full {
				break
			}
			delete(d.waiting, c.id)
			b.calls = append(b.calls, c)
			b.callers += c.callers
			bytes += c.bytes
		}
		d.queued -= c.bytes
		taken++
	}
	d.queue = slices.Delete(d.queue, 0, taken)
	return b
}

// run sends a batch and passes the results to its callers. The batch counts as callers calls in flight.
func (d *dispatcher) run(b *batch, callers int) {
	began := time.Now()
	responses, err := b.do(d.kv)
	took := time.Since(began)
	b.cancel()
	d.mu.Lock()
	d.learnLocked(b, responses, err)
	switch {
	case d.kind == grouped && (isDefinite(err) || isTooLarge(err)):
		d.counted.refused++
		d.divideLocked(b)
	case d.kind == joined && err != nil:
		d.counted.refused++
		b.finish(alone, nil, err)
	default:
		b.finish(answered, responses, err)
	}
	d.mu.Unlock()

	for range yields {
		runtime.Gosched()
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.endedLocked(callers, took)
}

// finish ends the calls of a batch.
func (b *batch) finish(e ending, responses []clientv3.OpResponse, err error) {
	for i, c := range b.calls {
		c.ending, c.err = e, err
		if responses != nil {
			c.resp, c.shared = responses[i], c.callers > 1
		}
		close(c.done)
	}
}

// divideLocked sends the writes of a refused group again, in parts.
func (d *dispatcher) divideLocked(b *batch) {
	left := slices.DeleteFunc(b.calls, func(c *call) bool { return c.callers == 0 })
	for part := range slices.Chunk(left, max((len(left)+parts-1)/parts, 1)) {
		d.startLocked(&batch{calls: part, callers: len(part)})
	}
}

// learnLocked adapts the bounds to the result of a batch.
func (d *dispatcher) learnLocked(b *batch, responses []clientv3.OpResponse, err error) {
	n := len(b.calls)
	switch {
	case err == nil && d.kind == joined:
		d.perRead = max(sizeOf(responses)/n, d.perRead-d.perRead/8)
	case errors.Is(err, rpctypes.ErrTooManyOps):
		d.maxOps = min(d.maxOps, max(n/2, 1))
	case isTooLarge(err):
		d.maxBytes = min(d.maxBytes, b.bytes()/2)
	case d.kind == joined && err != nil && strings.Contains(err.Error(), "larger than max"): // the response, for gRPC's limit
		d.perRead = max(d.perRead, 2*maxResponseBytes/n)
	}
}

// do sends the batch: one operation as it is, several in a Txn. The responses are in the
// order of the calls, and as if the operations had been sent alone.
func (b *batch) do(kv clientv3.KV) ([]clientv3.OpResponse, error) {
	if len(b.calls) == 1 {
		resp, err := kv.Do(b.ctx, b.calls[0].op)
		return []clientv3.OpResponse{resp}, err
	}
	ops := make([]clientv3.Op, len(b.calls))
	for i, c := range b.calls {
		ops[i] = c.op
	}
	resp, err := kv.Do(b.ctx, clientv3.OpTxn(nil, ops, nil))
	if err != nil {
		return nil, err
	}
	return split(resp.Txn(), ops)
}

func (b *batch) bytes() int {
	sum := 0
	for _, c := range b.calls {
		sum += c.bytes
	}
	return sum
}

// split divides the response to a Txn. The header of a part has the revision only, so
// each gets a copy of the whole.
func split(txn *clientv3.TxnResponse, ops []clientv3.Op) ([]clientv3.OpResponse, error) {
	parts := (*pb.TxnResponse)(txn).GetResponses()
	if len(parts) != len(ops) {
		return nil, fmt.Errorf("batch: the response to a Txn of %d operations has %d", len(ops), len(parts))
	}
	responses := make([]clientv3.OpResponse, len(ops))
	for i, op := range ops {
		resp, err := optxn.Part(parts[i], op, reply.Header(txn.Header, txn.Header.GetRevision()))
		if err != nil {
			return nil, fmt.Errorf("batch: the response to operation %d of a Txn is of another kind", i)
		}
		responses[i] = resp
	}
	return responses, nil
}

// copyOf returns a response that shares no memory with resp. All bytes are in one buffer, each
// slice with no capacity beyond its end: a get may return many keys.
func copyOf(resp *clientv3.GetResponse) *clientv3.GetResponse {
	out := &clientv3.GetResponse{Header: proto.CloneOf(resp.Header), More: resp.More, Count: resp.Count}
	buf := make([]byte, 0, sizeOf([]clientv3.OpResponse{resp.OpResponse()}))
	own := func(b []byte) []byte {
		if b == nil {
			return nil
		}
		from := len(buf)
		buf = append(buf, b...)
		return buf[from:len(buf):len(buf)]
	}
	kvs := make([]mvccpb.KeyValue, len(resp.Kvs))
	out.Kvs = slices.Grow(out.Kvs, len(kvs))
	for i, kv := range resp.Kvs {
		c := &kvs[i]
		c.Key, c.Value = own(kv.Key), own(kv.Value)
		c.CreateRevision, c.ModRevision, c.Version, c.Lease = kv.CreateRevision, kv.ModRevision, kv.Version, kv.Lease
		out.Kvs = append(out.Kvs, c)
	}
	return out
}

// sizeOf returns how many bytes of keys and values gets have returned.
func sizeOf(responses []clientv3.OpResponse) int {
	sum := 0
	for _, r := range responses {
		for _, kv := range (*pb.RangeResponse)(r.Get()).GetKvs() {
			sum += len(kv.Key) + len(kv.Value)
		}
	}
	return sum
}
