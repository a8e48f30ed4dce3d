package soak

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"

	"github.com/quorate/quorate/lab"
	"github.com/quorate/quorate/lab/history"
	"github.com/quorate/quorate/lab/load"
)

// reopenPause is the pause before a stream to a member that ended is opened again.
const reopenPause = 50 * time.Millisecond

// everything is the key and the range end of all keys.
var everything = []byte{0}

// recorder records every event of the store. It watches all keys on every member at
// the same time, past the links and without a client library, takes each revision
// from the member that tells it first, and compares what the others tell.
//
// It is certain to be complete: revisions have no gaps in etcd, so it takes only
// the one that follows the last, and history is compacted only up to what it has.
type recorder struct {
	cancel context.CancelFunc
	work   sync.WaitGroup

	mu      sync.Mutex
	events  []history.Event
	begins  []int // where the events of each revision begin, from revision 2
	changed chan struct{}
	err     error
}

// record starts a recorder. It must be stopped.
func record(cluster *lab.Cluster) *recorder {
	ctx, cancel := context.WithCancel(context.Background())
	r := &recorder{cancel: cancel, changed: make(chan struct{})}
	for _, m := range cluster.Members() {
		r.work.Go(func() { r.follow(ctx, m) })
	}
	return r
}

// stop ends the recorder.
func (r *recorder) stop() {
	r.cancel()
	r.work.Wait()
}

// revision returns the last revision that is recorded.
func (r *recorder) revision() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.last()
}

func (r *recorder) last() int64 { return int64(len(r.begins)) + 1 }

// await returns when a revision is recorded. It fails when ctx ends first, or when
// the recorder has found that members disagree.
func (r *recorder) await(ctx context.Context, revision int64) error {
	for {
		r.mu.Lock()
		last, err, changed := r.last(), r.err, r.changed
		r.mu.Unlock()
		if err != nil || last >= revision {
			return err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("the recorder is at revision %d and waits for %d: %w", last, revision, context.Cause(ctx))
		}
	}
}

// all returns the events so far. They must not be changed.
func (r *recorder) all() []history.Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.events[:len(r.events):len(r.events)]
}

// follow keeps a stream to a member until ctx ends.
func (r *recorder) follow(ctx context.Context, m *lab.Member) {
	for ctx.Err() == nil {
		err := r.stream(ctx, m)
		var wrong disagreement
		if errors.As(err, &wrong) {
			r.fail(fmt.Errorf("%s: %w", m.Name(), err))
			return
		}
		select {
		case <-time.After(reopenPause):
		case <-ctx.Done():
		}
	}
}

// stream takes events from a member until the stream ends.
func (r *recorder) stream(ctx context.Context, m *lab.Member) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := pb.NewWatchClient(m.Conn()).Watch(ctx, grpc.MaxCallRecvMsgSize(math.MaxInt32))
	if err != nil {
		return err
	}
	next := r.revision() + 1
	create := &pb.WatchCreateRequest{Key: everything, RangeEnd: everything, StartRevision: next}
	if err := stream.Send(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_CreateRequest{CreateRequest: create}}); err != nil {
		return err
	}
	for {
		response, err := stream.Recv()
		if err != nil {
			return err
		}
		if c := response.GetCompactRevision(); c > r.revision()+1 {
			return disagreement{fmt.Errorf("history was compacted to revision %d and the recorder has come to %d", c, r.revision())}
		}
		if response.GetCanceled() {
			return errors.New(response.GetCancelReason())
		}
		if next, err = r.take(next, load.Events(response.GetEvents())); err != nil {
			return err
		}
	}
}

// disagreement is an error that no further stream mends.
type disagreement struct{ error }

// take adds what a stream brought, whose next revision is the given one, and
// returns its next revision after that.
func (r *recorder) take(next int64, came []history.Event) (int64, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for begin := 0; begin < len(came); {
		revision, end := came[begin].ModRevision, begin
		for end < len(came) && came[end].ModRevision == revision {
			end++
		}
		if revision != next {
			return 0, disagreement{fmt.Errorf("its stream went from revision %d to %d", next-1, revision)}
		}
		if err := r.add(revision, came[begin:end]); err != nil {
			return 0, err
		}
		next++
		begin = end
	}
	return next, nil
}

// add adds a revision, or compares it if it is there.
func (r *recorder) add(revision int64, came []history.Event) error {
	if revision > r.last() {
		r.begins = append(r.begins, len(r.events))
		r.events = append(r.events, came...)
		r.wake()
		return nil
	}
	begin, end := r.begins[revision-2], len(r.events)
	if revision < r.last() {
		end = r.begins[revision-1]
	}
	known := r.events[begin:end]
	same := len(known) == len(came)
	for i := range came {
		same = same && known[i].Type == came[i].Type && known[i].KeyValue == came[i].KeyValue
	}
	if !same {
		return disagreement{fmt.Errorf("it tells of revision %d as %v, another member as %v", revision, came, known)}
	}
	return nil
}

func (r *recorder) fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.err = errors.Join(r.err, err)
	r.wake()
}

func (r *recorder) wake() {
	close(r.changed)
	r.changed = make(chan struct{})
}
