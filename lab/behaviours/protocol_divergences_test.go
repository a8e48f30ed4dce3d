package behaviours_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// divergence is a call that the fake answers differently from etcd.
type divergence struct {
	// what etcd does.
	what string
	// run ends with that call.
	run func(s *session)
	// etcd is how the call ends on etcd: nil if it succeeds.
	etcd error
}

// divergences are those that are known, in the order in which they happen on one pair of servers. The programs of the
// other tests stay away from them.
var divergences = []divergence{
	{
		"accepts a first compaction of revision 0, and answers each HashKV of the latest revision with its hash",
		func(s *session) {
			s.call(&pb.CompactionRequest{Physical: true})
			s.put("k", "1")
			s.call(&pb.HashKVRequest{})
		},
		nil,
	},
	{
		"keeps the hash made by a compaction, and answers with it although the revision is compacted meanwhile",
		func(s *session) {
			s.put("k", "2")
			s.put("k", "3")
			s.call(&pb.CompactionRequest{Revision: 2, Physical: true})
			s.call(&pb.CompactionRequest{Revision: 3, Physical: true})
			s.call(&pb.HashKVRequest{Revision: 2})
		},
		nil,
	},
}

// TestDivergences shows that each is there. One that has gone is to be taken off the list, and its call to be made by
// the programs of the other tests.
func TestDivergences(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	etcd, fake := newSession(ctx, realEtcd(t)), newSession(ctx, fakeEtcd(t))
	for _, d := range divergences {
		d.run(etcd)
		d.run(fake)
		fromEtcd, fromFake := last(etcd.transcript), last(fake.transcript)
		assert.Equal(t, status.Code(d.etcd), fromEtcd.Code, "etcd %s", d.what)
		assert.Equal(t, message(d.etcd), fromEtcd.Message, "etcd %s", d.what)
		assert.NotEqual(t, codes.DeadlineExceeded, fromFake.Code, "etcd %s: the fake", d.what)
		assert.NotEqual(t, last(etcd.recorded(t)), last(fake.recorded(t)), "etcd %s: so does the fake", d.what)
	}
}

func last[T any](all []T) T { return all[len(all)-1] }
