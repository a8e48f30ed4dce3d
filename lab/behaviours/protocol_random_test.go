package behaviours_test

import (
	"flag"
	"fmt"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/status"
)

var seed = flag.Uint64("seed", 0, "run the random tests with this seed in place of the usual ones")

// seeds are those that the random tests run with.
func seeds() []uint64 {
	if *seed != 0 {
		return []uint64{*seed}
	}
	return []uint64{1, 2}
}

// randomCalls is how many calls a run of TestRandomCalls makes.
const randomCalls = 3000

// TestRandomCalls makes the same random calls of KV, Lease and HashKV on both servers.
func TestRandomCalls(t *testing.T) {
	t.Parallel()
	for _, seed := range seeds() {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			t.Parallel()
			transcript := requireLikeEtcd(t, realEtcd(t), fakeEtcd(t), func(s *session) {
				g := newGenerator(seed)
				for range randomCalls {
					g.learn(s.call(g.call()))
				}
			})
			requireSeen(t, transcript, []string{
				pb.KV_Range_FullMethodName, pb.KV_Put_FullMethodName, pb.KV_DeleteRange_FullMethodName,
				pb.KV_Txn_FullMethodName, pb.KV_Compact_FullMethodName, pb.Lease_LeaseGrant_FullMethodName,
				pb.Lease_LeaseRevoke_FullMethodName, pb.Lease_LeaseTimeToLive_FullMethodName,
				pb.Lease_LeaseLeases_FullMethodName, pb.Maintenance_HashKV_FullMethodName,
			}, []error{
				rpctypes.ErrGRPCEmptyKey, rpctypes.ErrGRPCKeyNotFound, rpctypes.ErrGRPCValueProvided,
				rpctypes.ErrGRPCLeaseProvided, rpctypes.ErrGRPCDuplicateKey, rpctypes.ErrGRPCCompacted,
				rpctypes.ErrGRPCFutureRev, rpctypes.ErrGRPCInvalidSortOption,
				rpctypes.ErrGRPCLeaseNotFound, rpctypes.ErrGRPCLeaseExist,
			})
		})
	}
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
