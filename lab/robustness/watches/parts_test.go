package watches

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/metadata"

	"github.com/quorate/quorate/lab/internal/labtest"
	"github.com/quorate/quorate/lab/robustness/history"
)

func TestMain(m *testing.M) { labtest.Verify(m) }

func event(key string, revision int64) history.Event {
	return history.Event{KeyValue: history.KeyValue{Key: key, ModRevision: revision}}
}

func TestReadingKnowsWhereToGoOn(t *testing.T) {
	x := &reading{plan: plan{request: history.WatchRequest{StartRevision: 5}}}
	assert.EqualValues(t, 5, x.next(), "nothing has come")
	x.take(history.WatchResponse{Revision: 99, Events: []history.Event{event("a", 7)}})
	assert.EqualValues(t, 8, x.next(), "the header of events proves nothing")
	x.take(history.WatchResponse{Revision: 12})
	assert.EqualValues(t, 13, x.next(), "a bookmark does")
	x.take(history.WatchResponse{Revision: 99, Canceled: true, CompactRevision: 50, Err: rpctypes.ErrCompacted})
	assert.EqualValues(t, 50, x.next())
}

func TestEnding(t *testing.T) {
	for _, left := range []bool{false, true} {
		r := &readers{}
		r.close(&reading{left: left}, history.Watch{End: history.StillOpen})
		r.close(&reading{left: left}, history.Watch{End: history.EndedByItself})
		open := history.StillOpen
		if left {
			open = history.LeftByReader
		}
		assert.Equal(t, []history.Ending{open, history.EndedByItself}, []history.Ending{r.watches[0].End, r.watches[1].End})
	}
}

func TestPlansCoverTheAPI(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	known := storeState{revision: 1000, compacted: 900}
	seen := map[string]int{}
	for range 2000 {
		p := newPlan(rng, known)
		r := p.request
		for what, is := range map[string]bool{
			"now": r.StartRevision == 0, "past": r.StartRevision > 0 && r.StartRevision <= 1000, "next": r.StartRevision == 1001,
			"future": r.StartRevision > 1001, "compacted": r.StartRevision > 0 && r.StartRevision < 900,
			"one key": r.RangeEnd == "", "from key": r.RangeEnd == "\x00", "quiet": r.Key == quietKey, "prefix": r.Key == keyPrefix,
			"prev_kv": r.PrevKV, "progress": r.ProgressNotify, "created": r.CreatedNotify, "fragment": r.Fragment,
			"no put": r.NoPut, "no delete": r.NoDelete, "leader": r.RequireLeader, "stays": p.life > longestLife, "slow": p.pause > 0,
			"bookmarks for all": p.group.progress,
		} {
			if is {
				seen[what]++
			}
		}
		assert.GreaterOrEqual(t, r.StartRevision, int64(0))
		assert.EqualValues(t, 7, p.again(rng, 7).request.StartRevision)
	}
	assert.Len(t, seen, 19, "%v", seen)
	assert.GreaterOrEqual(t, newPlan(rng, storeState{revision: 1}).request.StartRevision, int64(0), "at the beginning there is no past")
}

func TestAWriteMayChangeNothing(t *testing.T) {
	deleted := func(n int64) *pb.ResponseOp {
		return &pb.ResponseOp{Response: &pb.ResponseOp_ResponseDeleteRange{ResponseDeleteRange: &pb.DeleteRangeResponse{Deleted: n}}}
	}
	assert.False(t, changes(deleted(0)))
	assert.True(t, changes(deleted(1)))
	assert.True(t, changes(&pb.ResponseOp{Response: &pb.ResponseOp_ResponsePut{ResponsePut: &pb.PutResponse{}}}))
}

func TestGroupsHaveMetadataOfTheirOwn(t *testing.T) {
	md, _ := metadata.FromOutgoingContext(groups[4].context(t.Context()))
	assert.Equal(t, []string{"leader-bookmarks"}, md.Get("soak-group"))
	assert.Equal(t, []string{rpctypes.MetadataHasLeader}, md.Get(rpctypes.MetadataRequireLeaderKey))
	_, has := metadata.FromOutgoingContext(groups[0].context(t.Context()))
	assert.False(t, has)
}
