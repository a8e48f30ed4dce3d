package watch

import (
	"testing"

	"github.com/stretchr/testify/assert"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
)

// Fragments are merged while they fit.
func TestFragmentsAreMerged(t *testing.T) {
	f := &follower{}
	s := &subscription{next: 3, owner: f}
	fragment := func(more bool, revs ...int64) []int64 {
		return revisions(s.accept(&pb.WatchResponse{Fragment: more, Events: eventsAt(revs...)}))
	}
	f.merges = 4 * eventSize(eventsAt(4)[0])
	assert.Nil(t, fragment(true, 3, 4))
	assert.Nil(t, fragment(true, 5, 6))
	assert.Equal(t, []int64{3, 4, 5, 6}, fragment(true, 7), "what no longer fits is passed on, except for the latest revision")
	assert.Equal(t, []int64{7, 7}, fragment(true, 7, 8), "so is the rest")
	assert.Equal(t, []int64{8, 9}, fragment(false, 9))
	assert.Zero(t, f.assembled)
}

// What is held of an incomplete revision keeps no other event in memory, and the other way
// round.
func TestFragmentsShareNoMemory(t *testing.T) {
	s := &subscription{owner: &follower{}}
	got := s.accept(&pb.WatchResponse{Fragment: true, Events: eventsAt(1, 2, 3)})
	assert.Equal(t, 2, cap(got))
	assert.Equal(t, 1, cap(s.assembly.rest))
}

func TestFirstEventsWithoutPreviousKeyValues(t *testing.T) {
	bare := happened
	full := func(id int64, revs ...int64) *pb.WatchResponse {
		r := happened(id, revs...)
		for _, ev := range r.Events {
			ev.PrevKv = &mvccpb.KeyValue{Key: []byte("k"), ModRevision: 1}
		}
		return r
	}
	creates := func(id int64, revs ...int64) *pb.WatchResponse {
		r := happened(id, revs...)
		for _, ev := range r.Events {
			ev.Kv.CreateRevision = ev.GetKv().GetModRevision()
		}
		return r
	}
	deletes := func(id int64, revs ...int64) *pb.WatchResponse {
		r := creates(id, revs...)
		for _, ev := range r.Events {
			ev.Type = mvccpb.Event_DELETE
		}
		return r
	}
	for _, tt := range []struct {
		name    string
		arrives []*pb.WatchResponse
		sent    []string
		was     []string
	}{
		{"they come again", []*pb.WatchResponse{bare(1, 11, 12), created(2, 12), full(2, 11, 12)}, []string{"cancel 1", "create 2 from 11"}, []string{"created", "created", "events [11 12]"}},
		{"of deletes", []*pb.WatchResponse{deletes(1, 11), created(2, 12), full(2, 11)}, []string{"cancel 1", "create 2 from 11"}, []string{"created", "created", "events [11]"}},
		{"in fragments", []*pb.WatchResponse{fragment(1, 11), bare(1, 12), created(2, 12), full(2, 11, 12)}, []string{"cancel 1", "create 2 from 11"}, []string{"created", "created", "events [11 12]"}},
		{"again: they are compacted", []*pb.WatchResponse{bare(1, 11), created(2, 12), bare(2, 11)}, []string{"cancel 1", "create 2 from 11"}, []string{"created", "created", "events [11]"}},
		{"later: they are compacted", []*pb.WatchResponse{full(1, 11), bare(1, 12)}, nil, []string{"created", "events [11]", "events [12]"}},
		{"after those of a key that is created", []*pb.WatchResponse{creates(1, 11), bare(1, 12), created(2, 12), full(2, 12)}, []string{"cancel 1", "create 2 from 12"}, []string{"created", "events [11]", "created", "events [12]"}},
		{"again, after those of a key that is created", []*pb.WatchResponse{creates(1, 11), bare(1, 12), created(2, 12), creates(2, 12), bare(2, 13)}, []string{"cancel 1", "create 2 from 12"}, []string{"created", "events [11]", "created", "events [12]", "events [13]"}},
		{"of keys that are created", []*pb.WatchResponse{creates(1, 11)}, nil, []string{"created", "events [11]"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			sc := connected(t)
			f := sc.previous()
			sc.receives(created(1, 10))
			sc.ss.take()
			sc.receives(tt.arrives...)
			sc.sends(tt.sent...)
			assert.Equal(t, tt.was, f.takeReceived())
		})
	}
}

// Without a revision to resume at, the watch would go on with later events.
func TestFirstEventsOfAWatchFromAnUnknownRevision(t *testing.T) {
	sc := connected(t)
	f := sc.previous()
	sc.receives(created(1, 0), happened(1, 11))
	assert.Equal(t, []string{"created", "events [11]"}, f.takeReceived())
}

// A server that forgets them after each reconnect is asked again after each.
func TestFirstEventsWithoutPreviousKeyValuesAfterReconnects(t *testing.T) {
	full := happened(2, 11)
	full.Events[0].PrevKv = &mvccpb.KeyValue{ModRevision: 1}
	for _, again := range []*pb.WatchResponse{full, happened(2, 11)} { // which may be compacted
		sc := connected(t)
		sc.previous()
		sc.receives(created(1, 10), happened(1, 11), created(2, 12), again)
		sc.reconnect()
		sc.sends("create 3 from 12")
		sc.receives(created(3, 12), happened(3, 12))
		sc.sends("cancel 3", "create 4 from 12")
	}
}

// What is held of an incomplete response counts against the budget of all watches until it is complete, or the stream
// has ended.
func TestFragmentsUseTheBudget(t *testing.T) {
	b := NewBudget(1 << 20)
	e := New(Config{MaxBuffer: 1 << 20, Budget: b})
	defer e.Close()
	w := newWatcher(Request{}, newChanSink(), b)
	w.shard.Store(&shard{engine: e})
	held := extentOf(eventsAt(5, 6)).bytes
	for _, end := range []func(){
		func() { w.current.become(queued) },
		func() { w.current.accept(happened(1, 7)) },
	} {
		w.current.state = live
		w.current.accept(fragment(1, 5, 6))
		assert.Equal(t, 1<<20-held, b.left())
		end()
		assert.Equal(t, 1<<20, b.left())
	}
}
