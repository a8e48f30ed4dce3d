package watch

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
)

// kine chooses the ids, and refuses a create with an id.
func TestCreatesCarryNoIDWhereIDsAreRefused(t *testing.T) {
	sc := connected(t)
	fs := sc.follows(3)
	sc.sends("create 1 from 0")
	sc.receives(refused(refusedID))
	sc.sends("create 0 from 0")
	sc.receives(created(901, 5))
	sc.sends("create 0 from 0")
	sc.receives(happened(901, 6), created(902, 6))
	sc.sends("create 0 from 0")
	sc.receives(created(904, 6), happened(902, 7), happened(904, 7))
	assert.Equal(t, []string{"created", "events [6]"}, fs[0].was())
	assert.Equal(t, []string{"created", "events [7]"}, fs[1].was())
	assert.Equal(t, []string{"created", "events [7]"}, fs[2].was())
	sc.ss.remove(fs[1].sub)
	sc.sends("cancel 902")
	sc.receives(canceled(902))

	// The next stream may lead to etcd.
	sc.reconnect()
	sc.sends("create 4 from 7")
	sc.receives(created(4, 7))
	sc.sends("create 5 from 8")
}

func TestRefusedIDsAreDroppedOnce(t *testing.T) {
	sc := connected(t)
	f := sc.follow(0)
	sc.receives(refused(refusedID))
	sc.sends("create 1 from 0", "create 0 from 0")
	sc.receives(refused(refusedID))
	assert.Equal(t, []string{"refused: " + refusedID}, f.was(), "the id was not the reason")
	sc.sends()
}

func TestRefusedIDOfACancelledWatch(t *testing.T) {
	sc := connected(t)
	f, g := sc.follow(0), sc.follow(0)
	sc.sends("create 1 from 0")
	sc.ss.remove(f.sub)
	sc.receives(refused(refusedID))
	sc.sends("create 0 from 0")
	sc.receives(created(7, 1))
	assert.Empty(t, f.was())
	assert.Equal(t, []string{"created"}, g.was())
}

// kine may answer the first request of a stream late, even after it has created a watch.
func TestTheFirstAnswerIsDoubtedWhereIDsAreRefused(t *testing.T) {
	sc := connected(t)
	f := sc.follow(3)
	sc.receives(refused(refusedID), created(7, 9))
	sc.sends("create 1 from 3", "create 0 from 3")
	sc.ss.requestProgress(true)
	sc.sends("progress?")
	sc.receives(progressed(invalidID, 9))
	assert.Equal(t, []string{"created"}, f.was())
	sc.sends("progress?")
	sc.receives(happened(7, 3, 4), progressed(invalidID, 9))
	assert.Equal(t, []string{"events [3 4]", "progress 9, asked for"}, f.was())
	sc.reconnect()
	sc.sends("create 2 from 5") // the doubtful answer moved nothing
}

func TestTheFirstAnswerIsNotDoubtedTwice(t *testing.T) {
	sc := connected(t)
	f := sc.follow(3)
	sc.receives(progressed(invalidID, 9), refused(refusedID), created(7, 9))
	sc.ss.requestProgress(true)
	sc.receives(progressed(invalidID, 9))
	assert.Equal(t, []string{"created", "progress 9, asked for"}, f.was())
}

// Other refusals are final, and cost no second create.
func TestOtherRefusalsAreNotForTheID(t *testing.T) {
	for _, reason := range []string{
		"", emptyRange, "mvcc: duplicate watch ID provided on the WatchStream",
		"rpc error: code = PermissionDenied desc = etcdserver: permission denied",
		"rpc error: code = InvalidArgument desc = " + rpctypes.ErrorDesc(rpctypes.ErrGRPCUserEmpty),
		"rpc error: code = InvalidArgument desc = " + rpctypes.ErrorDesc(rpctypes.ErrGRPCAuthOldRevision),
	} {
		sc := connected(t)
		f := sc.follow(0)
		sc.receives(refused(reason))
		sc.sends("create 1 from 0")
		assert.Equal(t, []string{"refused: " + reason}, f.was())
	}
}
