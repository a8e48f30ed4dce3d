package behaviours_test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// TestWatchBehind compares how a backlog is divided among responses, and their headers.
func TestWatchBehind(t *testing.T) {
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
// responses.
func TestWatchFragments(t *testing.T) {
	t.Parallel()
	const keys = 4
	large := bytes.Repeat([]byte("x"), 350<<10)
	puts := &pb.TxnRequest{}
	for i := range keys {
		puts.Success = append(puts.Success, &pb.RequestOp{Request: &pb.RequestOp_RequestPut{
			RequestPut: &pb.PutRequest{Key: fmt.Append(nil, i), Value: large},
		}})
	}
	transcript := requireLikeEtcd(t, realEtcd(t), fakeEtcd(t), func(s *session) {
		s.call(puts)
		for _, fragment := range []bool{false, true} {
			s.watching(func(s *watchSession) {
				s.create(&pb.WatchCreateRequest{RangeEnd: fromKey(), PrevKv: true, Fragment: fragment}, 1)
				s.call(puts)
				for _, r := range s.receive(1) {
					for more := r.Fragment; more; {
						rest := s.receive(1)
						more = len(rest) > 0 && rest[0].Fragment
					}
				}
			})
		}
	})
	last := transcript[len(transcript)-1].Responses[0].(*pb.WatchResponse)
	require.Less(t, len(last.Events), keys, "the last response is a fragment")
}
