package behaviours_test

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
)

// TestRangeStream compares a range that is sent in several chunks, each as it is divided. The behaviour stream has all options.
func TestRangeStream(t *testing.T) {
	t.Parallel()
	const keys = 60
	transcript := requireLikeEtcd(t, realEtcd(t), fakeEtcd(t), func(s *session) {
		for i := range keys {
			s.put(fmt.Sprintf("s%02d", i), "v")
		}
		all := &pb.RangeRequest{Key: []byte("s"), RangeEnd: []byte("t")}
		s.callMethod(rangeStream, all)
		for _, change := range []func(*pb.RangeRequest){
			func(r *pb.RangeRequest) { r.Limit = 7 },
			func(r *pb.RangeRequest) { r.Limit = 10 },
			func(r *pb.RangeRequest) { r.Limit = 25 },
			func(r *pb.RangeRequest) { r.Limit = keys },
			func(r *pb.RangeRequest) { r.Revision = 20 },
			func(r *pb.RangeRequest) { r.RangeEnd = fromKey() },
		} {
			r := proto.CloneOf(all)
			change(r)
			s.callMethod(rangeStream, r)
		}
		for i := range 20 {
			s.put(fmt.Sprintf("u%02d", i), strings.Repeat("v", 330_000)) // ten are larger than a chunk should be
		}
		s.callMethod(rangeStream, &pb.RangeRequest{Key: []byte("u"), RangeEnd: []byte("v")})
		s.call(&pb.CompactionRequest{Revision: 30, Physical: true})
		r := proto.CloneOf(all)
		r.Revision = 20
		s.callMethod(rangeStream, r)
	})
	requireSeen(t, transcript, []string{rangeStream.path}, nil)
	require.Greater(t, len(transcript[keys].Responses), 2, "chunks of the whole range")
}

// TestSnapshot holds the snapshots of both servers to the same rules. The database files in them have nothing in common.
func TestSnapshot(t *testing.T) {
	t.Parallel()
	etcd := settledEtcd(t)
	for name, s := range map[string]*session{
		"etcd": newSession(t.Context(), etcd),
		"fake": newSession(t.Context(), fakeEtcd(t)),
	} {
		s.put("k", strings.Repeat("v", 2*32*1024))
		e := s.call(&pb.SnapshotRequest{})
		require.Equal(t, codes.OK, e.Code, "%s: %s", name, e.Message)
		require.GreaterOrEqual(t, len(e.Responses), 4, "%s: three chunks and the digest", name)
		chunks := make([]*pb.SnapshotResponse, len(e.Responses))
		size := -sha256.Size
		for i, r := range e.Responses {
			chunks[i] = r.(*pb.SnapshotResponse)
			require.Nil(t, chunks[i].Header, name)
			require.Equal(t, "3.7.0", chunks[i].Version, name)
			size += len(chunks[i].Blob)
		}
		last := len(chunks) - 1
		digest, sent := sha256.New(), 0
		for i, c := range chunks[:last] {
			if i < last-1 {
				require.Len(t, c.Blob, 32*1024, "%s: chunk %d of %d", name, i, last)
			}
			digest.Write(c.Blob)
			sent += len(c.Blob)
			require.EqualValues(t, size-sent, c.RemainingBytes, "%s: chunk %d of %d", name, i, last)
		}
		require.Equal(t, digest.Sum(nil), chunks[last].Blob, name)
		require.Zero(t, chunks[last].RemainingBytes, name)
	}
}
