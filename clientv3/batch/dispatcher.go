package batch

import (
	"context"
	"errors"
	"maps"
	"math"
	"strings"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/retry"
)

const (
	// shortestWait and longestWait bound how long calls wait for the RPCs in flight to end.
	// Between these bounds it is 1/waitFraction of the time that an RPC takes, so that about
	// waitFraction RPCs are in flight where the round trip is long, and one that hangs holds
	// up no others.
	shortestWait = 500 * time.Microsecond
	longestWait  = 50 * time.Millisecond
	waitFraction = 16
	// smoothing is the weight of the past, against 1, in the usual time of an RPC,
	// and drift that in its least time.
	smoothing = 8
	drift     = 1024
	// aloneTrip is the round trip for which Config.MaxAlone calls are in flight alone. Over a longer
	// round trip there are proportionally more, because waiting calls keep no server and no CPU
	// busy: 4,000 a second by default. maxAloneTrips bounds that, for a server whose answers are
	// late because it is overloaded.
	aloneTrip     = 2 * time.Millisecond
	maxAloneTrips = 16
	// yields is how often the goroutine of a batch yields before the next batch is sent, so that the
	// next batch has the next calls of the callers of this one. With 4 of them 64 callers of one key
	// get 10 times as much as without the package, with 1 of them 8 times.
	yields = 4
	// parts is the number of parts into which a refused group is divided. With 4 of them a group of 128 with one bad write costs
	// 15 more RPCs and four more round trips; with 2 of them it would be 15 and seven, and for a group of bad writes twice as
	// many RPCs.
	parts = 4
	// refusedFor is how long calls with a refused key, or with a refused lease, are sent alone. At most maxRefused of these are
	// remembered.
	refusedFor = time.Second
	maxRefused = 1024
	// afterLast is the time between the last deadline of the callers of a batch and its own.
	afterLast = 100 * time.Millisecond
	// maxResponseBytes bounds the expected response to a batch. The expectation comes
	// from earlier responses.
	maxResponseBytes = 4 << 20
)

// kind is what a dispatcher sends.
type kind uint8

const (
	joined  kind = iota // gets: equal ones share one operation
	grouped             // puts and deletes: one for each key
)

// dispatcher sends the calls of one kind. A few calls are sent alone. Further ones queue, and are sent together when
// nothing is in flight, when they fill a batch, or when they have waited long enough.
type dispatcher struct {
	kv       clientv3.KV
	kind     kind
	maxAlone int

	// mu guards the fields below, and those of calls and batches that say so.
	mu       sync.Mutex
	inFlight int // callers whose RPC has been sent
	queue    []*call
	queued   int           // bytes in the queue
	waiting  map[id]*call  // the queued calls that have callers
	overdue  *time.Timer   // runs while there is a queue
	usual    time.Duration // that an RPC takes
	least    time.Duration // that an RPC takes, lately
	maxOps   int
	maxBytes int
	counted  counters
	refused  map[subject]time.Time // until when calls with it are sent alone
	perRead  int                   // bytes in the response to a get: the latest average, or the decaying highest
}

// id tells operations apart: equal gets have equal ids, and so have writes of one key.
type id struct {
	key, end            string
	limit               int64
	keysOnly, countOnly bool
}

// subject is what a server refuses a call for: its lease, or else its key.
type subject struct {
	lease clientv3.LeaseID
	key   string
}

// call is an operation that waits or is in flight, for one caller or, if it is a
// get, for several.
type call struct {
	id    id
	op    clientv3.Op
	bytes int
	done  chan struct{} // closed when ending is set
	until time.Time     // a write's deadline, zero for none

	// Guarded by dispatcher.mu.
	callers int
	batch   *batch // nil while it waits

	// Written before done is closed.
	ending ending
	resp   clientv3.OpResponse
	err    error
	shared bool // several callers have resp
}

// ending says what a caller does when its call is done.
type ending uint8

const (
	answered ending = iota + 1 // return resp and err
	alone                      // send the operation alone, unless err is of an outage and the caller has no deadline
	ownTurn                    // like alone; it already counts as in flight
)

func newDispatcher(kv clientv3.KV, cfg Config, kind kind) *dispatcher {
	d := &dispatcher{
		kv: kv, kind: kind, maxAlone: cfg.MaxAlone, waiting: map[id]*call{}, refused: map[subject]time.Time{},
		maxOps: cfg.MaxOps, maxBytes: cfg.MaxBytes,
	}
	d.overdue = time.AfterFunc(math.MaxInt64, d.sendOverdue) // reset by a queue
	d.overdue.Stop()
	return d
}

func (k kind) idOf(op clientv3.Op) id {
	if k == grouped {
		return id{key: string(op.KeyBytes())}
	}
	return id{string(op.KeyBytes()), string(op.RangeBytes()), op.Limit(), op.IsKeysOnly(), op.IsCountOnly()}
}

func (d *dispatcher) do(ctx context.Context, op clientv3.Op) (clientv3.OpResponse, error) {
	id := d.kind.idOf(op)
	d.mu.Lock()
	d.counted.calls++
	c := d.waiting[id]
	switch {
	case d.kind == grouped && c != nil, d.wasRefusedLocked(id.key, op.LeaseID()): // a Txn writes a key once
		d.counted.sent(1)
		d.mu.Unlock()
		return d.sendAlone(ctx, op)
	case c != nil:
		c.callers++
	case len(d.queue) == 0 && float64(d.inFlight) < d.aloneLocked():
		d.inFlight++
		d.counted.sent(1)
		d.mu.Unlock()
		return d.send(ctx, op)
	default:
		c = d.enqueueLocked(ctx, id, op)
	}
	d.mu.Unlock()
	return d.await(ctx, c)
}

// send sends the operation of one caller, which counts as in flight already.
func (d *dispatcher) send(ctx context.Context, op clientv3.Op) (clientv3.OpResponse, error) {
	began := time.Now()
	defer func() { // also of a panic below
		d.mu.Lock()
		defer d.mu.Unlock()
		d.endedLocked(1, time.Since(began))
	}()
	return d.sendAlone(ctx, op)
}

// sendAlone sends the operation of one caller, and remembers what is refused for its content.
func (d *dispatcher) sendAlone(ctx context.Context, op clientv3.Op) (clientv3.OpResponse, error) {
	resp, err := d.kv.Do(ctx, op)
	if isDefinite(err) {
		d.noteRefusal(op, err)
	}
	return resp, err
}

// isDefinite reports whether the server refused the content of the request, and so would refuse it again.
func isDefinite(err error) bool {
	return retry.Classify(err, retry.Evidence{Sent: true}) == retry.Definite
}

// isOutage reports whether the client below tries again after such an error: it returns one when it has tried for as long as
// it tries a call without a deadline.
func isOutage(err error) bool {
	class := retry.Classify(err, retry.Evidence{Sent: true})
	return retry.Decide(class, retry.Repeatable) == retry.Again && (class != retry.Ambiguous || retry.Policy{}.Retryable(retry.CodeOf(err)))
}

// isTooLarge reports whether a server refused a request because of its size.
func isTooLarge(err error) bool {
	onReceipt := strings.HasPrefix(rpctypes.ErrorDesc(err), "grpc: received message larger than max") &&
		retry.OutcomeOf(err) == retry.OutcomeNotExecuted
	return onReceipt || errors.Is(err, rpctypes.ErrRequestTooLarge)
}

func (d *dispatcher) noteRefusal(op clientv3.Op, err error) {
	s := subject{key: string(op.KeyBytes())}
	if lease := op.LeaseID(); lease != clientv3.NoLease && errors.Is(err, rpctypes.ErrLeaseNotFound) {
		s = subject{lease: lease}
	}
	now := time.Now()
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.refused) >= maxRefused {
		maps.DeleteFunc(d.refused, func(_ subject, until time.Time) bool { return now.After(until) })
	}
	if len(d.refused) < maxRefused {
		d.refused[s] = now.Add(refusedFor)
	}
}

// wasRefusedLocked reports whether the lease or the key of a call was refused recently.
func (d *dispatcher) wasRefusedLocked(key string, lease clientv3.LeaseID) bool {
	for _, s := range [...]subject{{key: key}, {lease: lease}} {
		if until, ok := d.refused[s]; ok {
			if time.Now().Before(until) {
				return true
			}
			delete(d.refused, s)
		}
	}
	return false
}

// enqueueLocked queues a call, and sends a batch if the queue now fills one.
func (d *dispatcher) enqueueLocked(ctx context.Context, id id, op clientv3.Op) *call {
	c := &call{
		id: id, op: op, bytes: len(op.KeyBytes()) + len(op.RangeBytes()) + len(op.ValueBytes()) + opOverhead,
		done: make(chan struct{}), callers: 1,
	}
	if d.kind == grouped {
		c.until, _ = ctx.Deadline()
	}
	if len(d.queue) == 0 {
		d.overdue.Reset(d.waitLocked())
	}
	d.queue = append(d.queue, c)
	d.queued += c.bytes
	d.waiting[id] = c
	if len(d.queue) >= d.opsLocked() || d.queued >= d.maxBytes {
		d.sendNextLocked()
	}
	return c
}

func (d *dispatcher) waitLocked() time.Duration {
	return min(max(d.usual/waitFraction, shortestWait), longestWait)
}

// aloneLocked returns the number of callers in flight below which a call is sent alone.
func (d *dispatcher) aloneLocked() float64 {
	return float64(d.maxAlone) * min(max(float64(d.least)/float64(aloneTrip), 1), maxAloneTrips)
}

// opsLocked returns how many operations a batch may have.
func (d *dispatcher) opsLocked() int {
	if d.perRead == 0 {
		return d.maxOps
	}
	return max(min(d.maxOps, maxResponseBytes/d.perRead), 1)
}

// await waits for the end of a call, for one of its callers.
func (d *dispatcher) await(ctx context.Context, c *call) (clientv3.OpResponse, error) {
	select {
	case <-c.done:
	case <-ctx.Done():
		return clientv3.OpResponse{}, d.leave(ctx, c)
	}
	_, limited := ctx.Deadline()
	switch {
	case c.ending == ownTurn:
		if ctx.Err() != nil {
			return clientv3.OpResponse{}, d.leave(ctx, c)
		}
		return d.send(ctx, c.op)
	case c.ending == alone && (limited || !isOutage(c.err)):
		d.mu.Lock()
		d.counted.sent(1)
		d.mu.Unlock()
		return d.sendAlone(ctx, c.op)
	case c.shared:
		return copyOf(c.resp.Get()).OpResponse(), c.err
	default:
		return c.resp, c.err
	}
}

// leave ends the wait of a caller whose context has ended, and returns the error for the caller.
func (d *dispatcher) leave(ctx context.Context, c *call) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	c.callers--
	switch {
	case c.ending == ownTurn:
		d.endedLocked(1, d.usual)
	case c.batch != nil:
		c.batch.callers--
		if c.batch.callers == 0 {
			c.batch.cancel()
		}
		return ctx.Err()
	case c.callers == 0:
		delete(d.waiting, c.id) // the queue drops it when its turn comes
	}
	if d.kind == grouped {
		return &retry.NotSentError{Err: ctx.Err()}
	}
	return ctx.Err()
}

// endedLocked records that an RPC of some callers has ended, and how long it took. After the last
// RPC in flight it sends the queue.
func (d *dispatcher) endedLocked(callers int, took time.Duration) {
	d.inFlight -= callers
	d.usual += (took - d.usual) / smoothing
	if d.least == 0 || took < d.least {
		d.least = took
	}
	d.least += (took - d.least) / drift
	for d.inFlight == 0 && len(d.queue) > 0 {
		d.sendNextLocked()
	}
}

// sendOverdue sends a batch even if others are in flight.
func (d *dispatcher) sendOverdue() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.sendNextLocked()
}

// sendNextLocked sends the next batch, if the queue has one.
func (d *dispatcher) sendNextLocked() {
	b := d.takeLocked()
	if len(d.queue) > 0 {
		d.overdue.Reset(d.waitLocked())
	} else {
		d.overdue.Stop()
	}
	d.startLocked(b)
}

// startLocked sends a batch, if it has callers. The operation of a single caller is left to that caller,
// who has a context and a goroutine for it.
func (d *dispatcher) startLocked(b *batch) {
	if b.callers == 0 {
		return
	}
	d.inFlight += b.callers
	d.counted.sent(b.callers)
	if b.callers == 1 {
		b.calls[0].ending = ownTurn
		close(b.calls[0].done)
		return
	}
	b.ctx, b.cancel = b.open()
	for _, c := range b.calls {
		c.batch = b
	}
	go d.run(b, b.callers)
}
