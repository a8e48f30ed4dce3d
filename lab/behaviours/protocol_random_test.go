package behaviours_test

import (
	"flag"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

var seed = flag.Uint64("seed", 1, "of the random tests")

// randomCalls is how many calls a run of TestRandomCalls makes.
const randomCalls = 3000

// TestRandomCalls makes the same random calls of KV and Lease on both servers.
func TestRandomCalls(t *testing.T) {
	t.Parallel()
	transcript := requireLikeEtcd(t, realEtcd(t), fakeEtcd(t), func(s *session) {
		g := newGenerator(*seed)
		for range randomCalls {
			g.learn(s.call(g.call()))
		}
	})
	requireSeen(t, transcript, []string{
		pb.KV_Range_FullMethodName, pb.KV_Put_FullMethodName, pb.KV_DeleteRange_FullMethodName,
		pb.KV_Txn_FullMethodName, pb.KV_Compact_FullMethodName, pb.Lease_LeaseGrant_FullMethodName,
		pb.Lease_LeaseRevoke_FullMethodName, pb.Lease_LeaseTimeToLive_FullMethodName,
		pb.Lease_LeaseLeases_FullMethodName,
	}, []error{
		rpctypes.ErrGRPCEmptyKey, rpctypes.ErrGRPCKeyNotFound, rpctypes.ErrGRPCValueProvided,
		rpctypes.ErrGRPCLeaseProvided, rpctypes.ErrGRPCDuplicateKey, rpctypes.ErrGRPCCompacted,
		rpctypes.ErrGRPCFutureRev, rpctypes.ErrGRPCInvalidSortOption,
		rpctypes.ErrGRPCLeaseNotFound, rpctypes.ErrGRPCLeaseExist,
	})
}

// learn takes the revision from the response of a call.
func (g *generator) learn(e entry) {
	for _, r := range e.Responses {
		if r, ok := r.(interface{ GetHeader() *pb.ResponseHeader }); ok {
			g.revision = max(g.revision, r.GetHeader().GetRevision())
		}
	}
}

func message(err error) string { return status.Convert(err).Message() }

const (
	// randomWrites is how many writes a run of TestRandomWatch tries.
	randomWrites = 400
	// randomWatchers is how many watchers it creates, evenly among them.
	randomWatchers = 10
	// lastKey is after all other keys. That it is deleted is the last event of every watcher.
	lastKey = "zz"
)

// TestRandomWatch compares which events watchers of random ranges receive, from random revisions on, while random writes
// go on. How events are divided among responses is etcd's chance.
func TestRandomWatch(t *testing.T) {
	t.Parallel()
	transcript := requireLikeEtcd(t, realEtcd(t), fakeEtcd(t), func(s *session) {
		s.watching(func(s *watchSession) {
			g := newGenerator(*seed)
			for i := range randomWrites {
				if i%(randomWrites/randomWatchers) == 0 {
					s.create(g.watch(), 0)
				}
				g.learn(s.call(g.write()))
			}
			s.put(lastKey, "")
			s.remove(lastKey)
			s.receiveAll()
		})
	})
	var events int
	for _, e := range transcript[len(transcript)-randomWatchers:] {
		require.NotEmpty(t, e.Responses, e.Method)
		last := e.Responses[len(e.Responses)-1].(*mvccpb.Event)
		require.Equal(t, lastKey, string(last.Kv.Key), e.Method)
		events += len(e.Responses)
	}
	require.Greater(t, events, randomWrites/2)
}

// write draws a request that may write.
func (g *generator) write() proto.Message {
	switch g.IntN(5) {
	case 0:
		return g.deletion()
	case 1, 2:
		return g.txn()
	default:
		return g.put()
	}
}

// watch draws a watcher of every key from one on. It starts at a fixed revision, since one that starts now may do so
// before or after a write that is under way.
func (g *generator) watch() *pb.WatchCreateRequest {
	r := &pb.WatchCreateRequest{
		Key: g.letter('a', numKeys), RangeEnd: fromKey(), PrevKv: g.oneIn(2), StartRevision: 1 + g.Int64N(g.revision+1),
	}
	if g.oneIn(3) {
		r.Filters = []pb.WatchCreateRequest_FilterType{pb.WatchCreateRequest_NOPUT}
	}
	return r
}

// receiveAll receives until every watcher has had its last event, and writes all events of each to the transcript.
func (s *watchSession) receiveAll() {
	var events [randomWatchers]entry
	for complete := 0; complete < randomWatchers; {
		response, err := s.stream.Recv()
		if err != nil {
			s.received(pb.Watch_Watch_FullMethodName, nil, err)
			break
		}
		for _, e := range response.Events {
			watcher := &events[response.WatchId]
			watcher.Responses = append(watcher.Responses, e)
			if e.Type == mvccpb.Event_DELETE && string(e.Kv.Key) == lastKey {
				complete++
			}
		}
	}
	for id, e := range events {
		e.Method = fmt.Sprintf("events of watcher %d", id)
		s.transcript = append(s.transcript, e)
	}
}
