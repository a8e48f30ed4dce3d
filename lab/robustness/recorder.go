package robustness

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/internal/fatal"
	"github.com/quorate/quorate/internal/pause"
	"github.com/quorate/quorate/lab"
	"github.com/quorate/quorate/lab/robustness/client/quorate"
	"github.com/quorate/quorate/lab/robustness/history"
)

// retryPause is the pause before a member is asked again, or a stream that ended is opened again.
const retryPause = 50 * time.Millisecond

// catchUpPoll is the time between two looks at how far the recorder has come.
const catchUpPoll = 10 * time.Millisecond

// everything is the key and the range end that stand for all keys.
var everything = []byte{0}

// Recorder records the history of a cluster's store, revision by revision. It watches all
// keys on every member at the same time, past the links and without a client library, takes
// each revision from the first member that delivers it, and compares what the others
// deliver.
//
// Its history is complete: revisions of etcd have no gaps, and it takes only the
// one that follows the last. A compaction must not go beyond [Recorder.Revision].
// Its methods may be called from several goroutines.
type Recorder struct {
	cluster *lab.Cluster
	now     func() time.Duration
	cancel  context.CancelFunc
	work    sync.WaitGroup

	mu        sync.Mutex
	revisions []recorded // from revision 2 on
	err       error
}

// recorded is what a revision changed, and when a member delivered it first.
type recorded struct {
	at     time.Duration
	events []history.Event
}

// startRecorder starts a recorder. It must be stopped, before the cluster is closed.
func startRecorder(cluster *lab.Cluster, now func() time.Duration) *Recorder {
	ctx, cancel := context.WithCancel(context.Background())
	r := &Recorder{cluster: cluster, now: now, cancel: cancel}
	for _, m := range cluster.Members() {
		r.work.Go(func() { r.follow(ctx, m) })
	}
	return r
}

// stop ends the recorder. What it has recorded stays.
func (r *Recorder) stop() {
	r.cancel()
	r.work.Wait()
}

// Revision returns the last revision that is recorded, 1 in the beginning.
func (r *Recorder) Revision() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.lastLocked()
}

func (r *Recorder) lastLocked() int64 { return int64(len(r.revisions)) + 1 }

// At returns when a revision was recorded: no earlier than it was made.
func (r *Recorder) At(revision int64) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.revisions[revision-2].at
}

// catchUp waits until the recorder has reached the current revision of the store. It returns
// that revision, and the events up to it in the order of their revisions. It fails when ctx
// ends first, or when the recorder has found that members disagree.
func (r *Recorder) catchUp(ctx context.Context) (revision int64, events []history.Event, err error) {
	if revision, err = r.current(ctx); err != nil {
		return 0, nil, err
	}
	for r.Revision() < revision && err == nil {
		err = pause.For(ctx, catchUpPoll)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if err = errors.Join(r.err, err); err != nil {
		return 0, nil, fmt.Errorf("the recorder is at revision %d and waits for %d: %w", r.lastLocked(), revision, err)
	}
	return revision, r.throughLocked(revision), nil
}

// throughLocked returns the events up to a revision that is recorded.
func (r *Recorder) throughLocked(revision int64) (events []history.Event) {
	for _, one := range r.revisions[:revision-1] {
		events = append(events, one.events...)
	}
	return events
}

// current asks for the revision of the store until a member answers: on a busy
// machine members elect a leader at any time.
func (r *Recorder) current(ctx context.Context) (int64, error) {
	request := &pb.RangeRequest{Key: everything, RangeEnd: everything, CountOnly: true}
	for members := r.cluster.Members(); ; members = append(members[1:], members[0]) {
		response, err := pb.NewKVClient(members[0].Conn()).Range(ctx, request)
		if err == nil {
			return response.GetHeader().GetRevision(), nil
		}
		if status.Code(err) != codes.Unavailable || pause.For(ctx, retryPause) != nil {
			return 0, fmt.Errorf("ask %s for its revision: %w", members[0].Name(), err)
		}
	}
}

// follow keeps a stream to a member until ctx ends.
func (r *Recorder) follow(ctx context.Context, m *lab.Member) {
	for ctx.Err() == nil {
		err := fatal.Catch(func() { r.stream(ctx, m) })
		if _, wrong := errors.AsType[disagreement](err); wrong {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.err = errors.Join(r.err, fmt.Errorf("%s: %w", m.Name(), err))
			return
		}
		_ = pause.For(ctx, retryPause)
	}
}

// stream takes events from a member until the stream ends, with an error, see package fatal.
func (r *Recorder) stream(ctx context.Context, m *lab.Member) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream := fatal.OK(pb.NewWatchClient(m.Conn()).Watch(ctx, grpc.MaxCallRecvMsgSize(math.MaxInt32)))
	next := r.Revision() + 1
	create := &pb.WatchCreateRequest{Key: everything, RangeEnd: everything, StartRevision: next}
	fatal.If(stream.Send(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_CreateRequest{CreateRequest: create}}))
	for {
		response := fatal.OK(stream.Recv())
		if c := response.GetCompactRevision(); c > r.Revision()+1 {
			fatal.If(disagreement{fmt.Errorf("history was compacted to revision %d and the recorder has come to %d", c, r.Revision())})
		}
		if response.GetCanceled() {
			fatal.If(errors.New(response.GetCancelReason()))
		}
		next = r.take(next, quorate.Events(response.GetEvents()))
	}
}

// disagreement is an error that another stream would not resolve.
type disagreement struct{ error }

// take adds the events of a response. next is the revision that the stream has to
// deliver next; take returns the one after the events. A disagreement ends it.
func (r *Recorder) take(next int64, came []history.Event) int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	for begin := 0; begin < len(came); {
		revision, end := came[begin].ModRevision, begin
		for end < len(came) && came[end].ModRevision == revision {
			end++
		}
		if revision != next {
			fatal.If(disagreement{fmt.Errorf("its stream went from revision %d to %d", next-1, revision)})
		}
		r.addLocked(revision, came[begin:end])
		next++
		begin = end
	}
	return next
}

// addLocked records a revision, or compares it if it is recorded already.
func (r *Recorder) addLocked(revision int64, came []history.Event) {
	if revision > r.lastLocked() {
		r.revisions = append(r.revisions, recorded{r.now(), came})
		return
	}
	known := r.revisions[revision-2].events
	if !slices.EqualFunc(known, came, func(a, b history.Event) bool { return a.Type == b.Type && a.KeyValue == b.KeyValue }) {
		fatal.If(disagreement{fmt.Errorf("it delivered revision %d as %v, another member as %v", revision, came, known)})
	}
}
