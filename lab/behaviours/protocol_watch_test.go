package behaviours_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc/codes"
)

// TestWatch compares what a stream receives, response by response. Each part ends in a response that must come next, so
// that one too many shows as well.
func TestWatch(t *testing.T) {
	t.Parallel()
	transcript := requireLikeEtcd(t, realEtcd(t), fakeEtcd(t), func(s *session) {
		for _, value := range []string{"1", "2"} {
			s.put("a", value)
		}
		s.put("b", "1")
		s.remove("a")
		s.put("a", "3")
		s.watching(func(s *watchSession) {
			s.present()
			s.past()
			s.refused()
			s.filtered()
			s.future()
			s.transaction()
			s.compacted()
		})
	})
	for _, e := range transcript {
		assert.Equal(t, codes.OK, e.Code, "%s: %s", e.Method, e.Message)
	}
}

func key(k string) *pb.WatchCreateRequest { return &pb.WatchCreateRequest{Key: []byte(k)} }

// present watches from now on. The watcher gets ID 0.
func (s *watchSession) present() {
	s.progress(0) // has no answer: there is no watcher
	s.create(key("a"), 1)
	s.put("a", "4")
	s.receive(1)
	s.put("b", "2")
	s.progress(1)
}

// past watches from an earlier revision, with the ID 9, until it is cancelled.
func (s *watchSession) past() {
	s.create(&pb.WatchCreateRequest{Key: []byte("a"), StartRevision: 2, PrevKv: true, WatchId: 9}, 2)
	s.put("a", "5")
	s.receiveBoth()
	s.cancel(9, 1)
	s.cancel(9, 0)  // has no answer
	s.cancel(77, 0) // nor has this
}

// receiveBoth receives one response of each of two watchers, which come in any order.
func (s *watchSession) receiveBoth() {
	first := len(s.transcript)
	both := s.receive(2)
	if len(both) == 2 && both[0].WatchId > both[1].WatchId {
		last := s.transcript[first:]
		last[0], last[1] = last[1], last[0]
	}
}

// refused asks for what cannot be watched.
func (s *watchSession) refused() {
	s.create(&pb.WatchCreateRequest{Key: []byte("a"), WatchId: 9}, 1)
	s.create(&pb.WatchCreateRequest{Key: []byte("b"), WatchId: 9}, 1) // in use
	s.create(&pb.WatchCreateRequest{Key: []byte("a"), StartRevision: -1}, 1)
	s.create(&pb.WatchCreateRequest{Key: []byte("c"), RangeEnd: []byte("a")}, 1) // empty
	s.cancel(9, 1)
}

// filtered replaces the watcher of present by one of all keys that has ID 1 and gets deletions only, and then by one
// that gets puts only, with ID 2.
func (s *watchSession) filtered() {
	s.cancel(0, 1)
	s.create(&pb.WatchCreateRequest{RangeEnd: fromKey(), Filters: []pb.WatchCreateRequest_FilterType{pb.WatchCreateRequest_NOPUT}}, 1)
	s.put("a", "6")
	s.remove("a")
	s.receive(1)
	s.cancel(1, 1)
	s.create(&pb.WatchCreateRequest{RangeEnd: fromKey(), Filters: []pb.WatchCreateRequest_FilterType{pb.WatchCreateRequest_NODELETE}}, 1)
	s.remove("b")
	s.put("a", "7")
	s.receive(1)
	s.cancel(2, 1)
}

// future watches from a later revision, with ID 3. While it waits no progress is notified.
func (s *watchSession) future() {
	s.create(&pb.WatchCreateRequest{Key: []byte("z"), StartRevision: 1000}, 1)
	s.progress(0) // has no answer
	s.cancel(3, 1)
}

// transaction watches, with ID 4, a transaction that deletes two keys and puts another.
func (s *watchSession) transaction() {
	for _, k := range []string{"x", "y"} {
		s.put(k, "1")
	}
	s.create(&pb.WatchCreateRequest{RangeEnd: fromKey(), PrevKv: true}, 1)
	s.call(&pb.TxnRequest{Success: []*pb.RequestOp{
		{Request: &pb.RequestOp_RequestPut{RequestPut: &pb.PutRequest{Key: []byte("z"), Value: []byte("1")}}},
		{Request: &pb.RequestOp_RequestDeleteRange{RequestDeleteRange: &pb.DeleteRangeRequest{Key: []byte("x"), RangeEnd: []byte("z")}}},
	}})
	s.receive(1)
	s.progress(1)
	s.cancel(4, 1)
}

// compacted watches from revisions that are compacted, with ID 5, and from the first that is not, with ID 6. The first
// keeps its ID, and progress from being notified, until it is cancelled.
func (s *watchSession) compacted() {
	s.call(&pb.CompactionRequest{Revision: 6})
	s.create(&pb.WatchCreateRequest{Key: []byte("a"), StartRevision: 3}, 2)
	s.create(&pb.WatchCreateRequest{Key: []byte("a"), StartRevision: 6, PrevKv: true}, 2)
	s.create(&pb.WatchCreateRequest{Key: []byte("a"), WatchId: 5}, 1) // in use
	s.progress(0)                                                     // has no answer
	s.cancel(5, 1)
	s.progress(1)
	s.cancel(6, 1)
}

// TestWatchBacklog compares how a backlog is divided among responses, and their headers.
func TestWatchBacklog(t *testing.T) {
	t.Parallel()
	const backlog = 1100
	transcript := requireLikeEtcd(t, realEtcd(t), fakeEtcd(t), func(s *session) {
		for i := range backlog {
			s.put(fmt.Sprintf("k%d", i%3), "v")
		}
		s.watching(func(s *watchSession) {
			s.create(&pb.WatchCreateRequest{Key: []byte("k"), RangeEnd: []byte("l"), StartRevision: 2}, 3)
			s.put("k0", "v")
			s.receive(1)
		})
	})
	var events []int
	for _, e := range transcript {
		for _, r := range e.Responses {
			if r, ok := r.(*pb.WatchResponse); ok && !r.Created {
				events = append(events, len(r.Events))
			}
		}
	}
	require.Equal(t, []int{1000, 100, 1}, events)
}

// TestWatchFragments compares how large responses are divided, of a watch that asks for that and of one that does not.
// The transaction is within etcd's limit for requests; with the values before it, its events are beyond that for
// responses. Before, it compares the limits themselves: two values around that of a write, and a request beyond that of a message.
func TestWatchFragments(t *testing.T) {
	t.Parallel()
	const keys = 4
	puts := &pb.TxnRequest{}
	for i := range keys {
		put := &pb.RequestOp_RequestPut{RequestPut: &pb.PutRequest{Key: fmt.Append(nil, i), Value: make([]byte, 350<<10)}}
		puts.Success = append(puts.Success, &pb.RequestOp{Request: put})
	}
	transcript := requireLikeEtcd(t, realEtcd(t), fakeEtcd(t), func(s *session) {
		for _, size := range []int{1536<<10 - 26, 1536<<10 - 23} {
			s.call(&pb.PutRequest{Key: []byte("k"), Value: make([]byte, size)})
		}
		s.watching(func(s *watchSession) { s.create(&pb.WatchCreateRequest{Key: make([]byte, 2<<20)}, 1) })
		s.call(puts)
		for _, fragment := range []bool{false, true} {
			s.watching(func(s *watchSession) {
				s.create(&pb.WatchCreateRequest{RangeEnd: fromKey(), PrevKv: true, Fragment: fragment}, 1)
				s.call(puts)
				for more := true; more; {
					rest := s.receive(1)
					more = len(rest) > 0 && rest[0].Fragment
				}
			})
		}
	})
	last := transcript[len(transcript)-1].Responses[0].(*pb.WatchResponse)
	require.Less(t, len(last.Events), keys, "the last response is a fragment")
}
