package ordering

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/internal/lineage"
	"github.com/quorate/quorate/clientv3/internal/optxn"
	"github.com/quorate/quorate/internal/pause"
)

// maxPause is the longest pause between two attempts of one read. A lagging member
// needs longer than that to catch up, and ten reads per second do not slow it down.
const maxPause = 100 * time.Millisecond

type kvOrdering struct {
	optxn.KV
	store     clientv3.KV
	violation OrderViolationFunc
	tracker   *lineage.Tracker
	history   *lineage.History // of the first response
}

// NewKV returns a KV whose responses never have a lower revision than a response
// returned before the request began. Responses to writes count like those to reads.
// All requests except Compact go through kv.Do and kv.GetStream.
//
// When kv answers a read, or a read-only transaction, with a lower revision,
// orderViolationFunc decides. While it returns nil the read is sent again: first at
// once, then after pauses that grow to 100 ms, until ctx ends. An answered write was
// executed, and its response is returned unchanged.
//
// A response of another cluster, and a write or a linearizable read with a lower
// revision, show that the store has another history, for example because it was
// restored from a backup. From then on all reads fail with an error that wraps a
// *clientv3.ClusterChangedError and [ErrNoGreaterRev], because revisions of two
// histories cannot be compared. Writes still work. A new KV starts from the present
// state.
//
// GetStream first makes a read to choose its revision, which costs a round trip, so
// its chunks are never older either. A reader that stops early must cancel its
// context; closing the client is not enough.
func NewKV(kv clientv3.KV, orderViolationFunc OrderViolationFunc) clientv3.KV {
	tracker := lineage.New(func(c *lineage.Change) error {
		return fmt.Errorf("%w: %w", ErrNoGreaterRev, (*clientv3.ClusterChangedError)(c))
	})
	k := &kvOrdering{store: kv, violation: orderViolationFunc, tracker: tracker, history: tracker.History()}
	k.KV = optxn.Over(kv, k.do)
	return k
}

func (kv *kvOrdering) Compact(ctx context.Context, rev int64, opts ...clientv3.CompactOption) (*clientv3.CompactResponse, error) {
	resp, err := kv.store.Compact(ctx, rev, opts...)
	if err == nil {
		kv.history.Reach(resp.Header.GetRevision())
	}
	return resp, err
}

func (kv *kvOrdering) do(ctx context.Context, op clientv3.Op) (clientv3.OpResponse, error) {
	prevRev := kv.history.Revision()
	for attempt := 1; ; attempt++ {
		resp, err := kv.store.Do(ctx, op)
		if err != nil {
			return clientv3.OpResponse{}, err
		}
		header, least := optxn.Response(resp).GetHeader(), int64(0)
		if isLinearizable(op) {
			least = prevRev
		}
		kv.tracker.Note(kv.history, header, least)
		rev, over := header.GetRevision(), kv.tracker.Over(kv.history) // over is set once the history differs from that of the first response
		switch {
		case len(optxn.Writes(op)) > 0:
			kv.history.Reach(rev)
			return resp, nil // it was executed
		case over != nil:
			return clientv3.OpResponse{}, over
		case rev >= prevRev:
			kv.history.Reach(rev)
			return resp, nil
		}
		if err := kv.violation(op, resp, prevRev); err != nil {
			return clientv3.OpResponse{}, err
		}
		if err := pause.For(ctx, pauseAfter(attempt)); err != nil {
			return clientv3.OpResponse{}, err
		}
	}
}

// isLinearizable reports whether the response to an operation is no older than the
// request. That is not guaranteed for an empty transaction, or one with
// serializable reads only.
func isLinearizable(op clientv3.Op) bool {
	if !op.IsTxn() {
		return !op.IsGet() || !op.IsSerializable()
	}
	_, thenOps, elseOps := op.Txn()
	return slices.ContainsFunc(slices.Concat(thenOps, elseOps), isLinearizable)
}

// pauseAfter returns how long to wait after a number of failed attempts. There is no wait
// after the first: the next endpoint in the rotation is probably up to date.
func pauseAfter(attempts int) time.Duration {
	return min(time.Duration((attempts-1)*(attempts-1))*time.Millisecond, maxPause)
}

// OrderViolationFunc handles a response that is older than an earlier one. Its
// arguments are the operation, the response, and the revision that its header should
// have reached. It is called once for each such response, possibly concurrently.
//
// If it returns nil, a read is sent again. If it returns an error, that is the error
// of the request. If a member has not reached the revision of a stream, it returns
// no header: then resp is a get response with an empty header.
type OrderViolationFunc func(op clientv3.Op, resp clientv3.OpResponse, prevRev int64) error

// ErrNoGreaterRev is returned when no endpoint that answers has reached the revision
// seen before. Reads after a change of the cluster wrap it too, see [NewKV].
var ErrNoGreaterRev = errors.New("etcdclient: no cluster members have a revision higher than the previously received revision")

const (
	// statusTimeout bounds the status requests to all endpoints. It covers a new
	// connection on a lossy link, and is short enough for a caller whose context has
	// ended meanwhile.
	statusTimeout = time.Second

	// freshLifetime is how long a status result is reused. It makes the rate of
	// status requests independent of the rate of stale reads.
	freshLifetime = time.Second
)

// NewOrderViolationSwitchEndpointClosure returns an OrderViolationFunc that repeats
// reads, on the next endpoint in the client's rotation, while at least one endpoint
// has reached the revision, or may have because it denies its status; otherwise it
// returns [ErrNoGreaterRev]. It requests the status of c's endpoints, concurrently and
// for at most a second; a positive result is reused for a second.
//
// It does not change c's endpoints, and an error has no effect on later requests. It
// is safe for concurrent use by any number of KVs of c.
func NewOrderViolationSwitchEndpointClosure(c *clientv3.Client) OrderViolationFunc {
	m := &memberCheck{client: c, sem: make(chan struct{}, 1)}
	return func(_ clientv3.Op, _ clientv3.OpResponse, prevRev int64) error {
		if m.reached(prevRev) {
			return nil
		}
		return ErrNoGreaterRev
	}
}

// memberCheck determines the revisions of a client's endpoints.
type memberCheck struct {
	client *clientv3.Client

	// sem holds a value while status requests run; the callers that wait for it share
	// the result. It guards the fields below. (It is not a sync.Mutex because blocking
	// on one stops the clock of testing/synctest.)
	sem      chan struct{}
	asked    time.Time // when the latest result was complete
	revision int64     // the highest revision in it
	all      bool      // it covers all endpoints, not only until one was up to date
}

// reached reports whether some endpoint is at the revision or above it.
func (m *memberCheck) reached(revision int64) bool {
	began := time.Now()
	m.sem <- struct{}{}
	defer func() { <-m.sem }()
	shared := m.all && m.asked.After(began)
	fresh := m.revision >= revision && time.Since(m.asked) < freshLifetime
	if !shared && !fresh {
		m.revision = m.ask(revision)
		m.all = m.revision < revision
		m.asked = time.Now()
	}
	return m.revision >= revision
}

// ask returns the first revision that is at least enough, or the highest one of all
// endpoints.
func (m *memberCheck) ask(enough int64) int64 {
	if m.client.Maintenance == nil {
		return 0 // a client made by NewCtxClient, which has no endpoints
	}
	ctx, cancel := context.WithTimeout(m.client.Ctx(), statusTimeout)
	defer cancel()
	eps := m.client.Endpoints()
	revisions := make(chan int64, len(eps))
	for _, ep := range eps {
		go func() {
			if resp, err := m.client.Status(ctx, ep); errors.Is(err, rpctypes.ErrPermissionDenied) {
				revisions <- enough // some releases permit it to root alone: the member may have it
			} else {
				revisions <- (*pb.StatusResponse)(resp).GetHeader().GetRevision() // 0 if it does not answer
			}
		}()
	}
	var highest int64
	for range eps {
		if highest = max(highest, <-revisions); highest >= enough {
			break
		}
	}
	return highest
}

// GetStream reads at a revision that is known beforehand, so it need not buffer the
// keys until the header at the end of the stream gives their revision.
func (kv *kvOrdering) GetStream(ctx context.Context, key string, opts ...clientv3.OpOption) (clientv3.GetStreamChan, error) {
	op := clientv3.OpGet(key, opts...)
	count := []clientv3.OpOption{clientv3.WithCountOnly()}
	if op.IsSerializable() {
		count = append(count, clientv3.WithSerializable())
	}
	resp, err := kv.Get(ctx, string(op.KeyBytes()), count...) // of the first key of the range
	if err != nil {
		return nil, err
	}
	if op.Rev() <= 0 {
		clientv3.WithRev(resp.Header.GetRevision())(&op)
	}
	source := &streamSource{kv: kv, op: op, header: resp.Header}
	return clientv3.NewKVFromKVClient(source, nil).GetStream(ctx, key, optxn.As(op))
}

// streamSource is the KVClient of one GetStream: it passes the reads of clientv3's
// GetStream to the wrapped KV, and adds the header that was read before.
type streamSource struct {
	pb.KVClient // nil: GetStream calls only the methods below

	kv     *kvOrdering
	op     clientv3.Op
	header *pb.ResponseHeader
}

// part returns the operation for a part of the range.
func (s *streamSource) part(req *pb.RangeRequest) clientv3.Op {
	op := s.op
	op.WithKeyBytes(req.Key)
	op.WithRangeBytes(req.RangeEnd)
	clientv3.WithLimit(req.Limit)(&op)
	if req.CountOnly {
		clientv3.WithCountOnly()(&op)
	}
	return op
}

// Range reads a page if the range cannot be streamed.
func (s *streamSource) Range(ctx context.Context, req *pb.RangeRequest, _ ...grpc.CallOption) (*pb.RangeResponse, error) {
	resp, err := s.kv.Do(ctx, s.part(req))
	if err != nil {
		return nil, err
	}
	return s.withRevision((*pb.RangeResponse)(resp.Get())), nil
}

// maxStreams is how many streams are opened after the first refused one, in 55 ms altogether: a
// member that lags has caught up by then, one that is cut off has not.
const maxStreams = 6

// RangeStream tries again after a member that lags, if the OrderViolationFunc agrees. Streams of a
// client share a connection, and the next one may reach the same member; calls rotate over the
// members. So after maxStreams attempts it uses calls.
func (s *streamSource) RangeStream(ctx context.Context, req *pb.RangeRequest, _ ...grpc.CallOption) (pb.KV_RangeStreamClient, error) {
	op, unknown := s.part(req), &clientv3.GetResponse{Header: &pb.ResponseHeader{}}
	for refusals := 1; ; refusals++ {
		in, err := s.open(ctx, op, refusals > maxStreams+1)
		stream := &rangeStream{source: s, ctx: ctx, in: in}
		if err == nil {
			stream.first, err = stream.Recv()
		}
		switch {
		case err == nil, errors.Is(err, io.EOF):
			return stream, nil
		case !s.lags(op, err):
			return nil, err
		}
		if err := s.kv.violation(op, unknown.OpResponse(), op.Rev()); err != nil {
			return nil, err
		}
		if err := pause.For(ctx, pauseAfter(refusals)); err != nil {
			return nil, err
		}
	}
}

// open begins to read the range as a stream, or reads it with one call.
func (s *streamSource) open(ctx context.Context, op clientv3.Op, whole bool) (clientv3.GetStreamChan, error) {
	if !whole {
		return s.kv.store.GetStream(ctx, string(op.KeyBytes()), optxn.As(op))
	}
	resp, err := s.kv.store.Do(ctx, op)
	one := make(chan clientv3.RangeStreamResponse, 1)
	one <- clientv3.RangeStreamResponse{RangeResponse: (*pb.RangeResponse)(resp.Get())}
	close(one)
	return one, err
}

// lags reports whether err means that the member has not reached the revision yet,
// although another one has.
func (s *streamSource) lags(op clientv3.Op, err error) bool {
	return errors.Is(rpctypes.Error(err), rpctypes.ErrFutureRev) && op.Rev() <= s.header.GetRevision()
}

// withRevision sets the header of a response that has one. Data read at a revision must
// not claim a later one: programs watch from the next revision.
func (s *streamSource) withRevision(resp *pb.RangeResponse) *pb.RangeResponse {
	if resp.GetHeader() == nil {
		return resp
	}
	return &pb.RangeResponse{Header: s.header, Kvs: resp.Kvs, More: resp.More, Count: resp.Count}
}

// rangeStream receives from the wrapped KV.
type rangeStream struct {
	grpc.ClientStream // nil: GetStream calls only Recv

	source *streamSource
	ctx    context.Context
	in     clientv3.GetStreamChan
	first  *pb.RangeStreamResponse // received by RangeStream; nil once Recv has returned it
}

func (r *rangeStream) Recv() (*pb.RangeStreamResponse, error) {
	if first := r.first; first != nil {
		r.first = nil
		return first, nil
	}
	select {
	case chunk, open := <-r.in:
		if !open {
			return nil, io.EOF
		}
		if err := chunk.Err(); err != nil {
			return nil, err
		}
		return &pb.RangeStreamResponse{RangeResponse: r.source.withRevision(chunk.RangeResponse)}, nil
	case <-r.ctx.Done():
		return nil, r.ctx.Err()
	}
}
