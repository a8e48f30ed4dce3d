package watch

import (
	"testing"

	"github.com/stretchr/testify/assert"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
)

func TestSerialAfterConfusion(t *testing.T) {
	sc := connected(t)
	sc.follows(3)
	sc.sends("create 1 from 0")
	sc.receives(created(1, 10))
	sc.sends("create 2 from 0", "create 3 from 0")
	sc.breaks(created(3, 10), "watch 3 was created in place of 2")
	for _, step := range []struct {
		sends string
		id    int64
	}{{"create 4 from 11", 4}, {"create 5 from 0", 5}, {"create 6 from 0", 6}} {
		sc.sends(step.sends)
		sc.receives(created(step.id, 10))
	}
	sc.reconnect()
	sc.sends("create 7 from 11")
}

func TestRemoveAndAddAgainGetsAnotherID(t *testing.T) {
	sc := connected(t)
	fs := sc.follows(2)
	sc.receives(created(1, 10))
	sc.sends("create 1 from 0", "create 2 from 0")
	sc.ss.remove(fs[0].sub)
	sc.ss.remove(fs[1].sub)
	sc.ss.add(fs[0].sub)
	sc.ss.add(fs[1].sub)
	sc.sends("cancel 1", "create 3 from 11", "create 4 from 0")
	sc.receives(created(2, 10), happened(2, 11), canceled(1), created(3, 11), created(4, 12), happened(3, 11))
	sc.sends("cancel 2")
	assert.Equal(t, []string{"created", "created", "events [11]"}, fs[0].takeReceived())
	assert.Equal(t, []string{"created"}, fs[1].takeReceived())
	assert.EqualValues(t, 13, fs[1].sub.next)
}

// A held stream sends no creates. The next stream is not held.
func TestHold(t *testing.T) {
	sc := connected(t)
	sc.ss.hold()
	sc.follow(5)
	sc.sends()
	sc.reconnect()
	sc.sends("create 1 from 5")
}

func TestDisorderBreaksTheStream(t *testing.T) {
	sc := connected(t)
	f := sc.follow(5)
	sc.receives(created(1, 10), happened(1, 5, 6))
	sc.sends("create 1 from 5")
	sc.breaks(happened(2, 7), "response for watch 2, which is not created yet")
	sc.sends("create 2 from 7")
	sc.receives(created(2, 10), created(2, 10), happened(2, 6, 7)) // repeated
	sc.breaks(created(3, 10), "watch 3 was created, which was not requested")
	sc.sends("create 3 from 8")
	sc.breaks(progressed(3, 12), "not created yet")
	sc.sends("create 4 from 8")
	sc.breaks(happened(2, 8), "response for watch 2, which is not created yet") // created on the previous stream
	sc.sends("create 5 from 8")
	sc.receives(created(5, 10))
	sc.breaks(&pb.WatchResponse{WatchId: 5, Events: []*mvccpb.Event{{}}}, "event of watch 5 without a key")
	sc.sends("create 6 from 8")
	assert.Equal(t, []string{"created", "events [5 6]", "created", "events [7]", "created"}, f.takeReceived())
}

func TestRefusedIDsAreDroppedOnce(t *testing.T) {
	sc := connected(t)
	f := sc.follow(0)
	sc.receives(refused(refusedID))
	sc.sends("create 1 from 0", "create 0 from 0")
	sc.receives(refused(refusedID))
	assert.Equal(t, []string{"refused: " + refusedID}, f.takeReceived(), "the id was not the reason")
	sc.sends()
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
	assert.Equal(t, []string{"created"}, f.takeReceived())
	sc.sends("progress?")
	sc.receives(happened(7, 3, 4), progressed(invalidID, 9))
	assert.Equal(t, []string{"events [3 4]", "progress 9, asked for"}, f.takeReceived())
	sc.reconnect()
	sc.sends("create 2 from 5") // the doubtful answer moved nothing
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
		assert.Equal(t, []string{"refused: " + reason}, f.takeReceived())
	}
}

func TestResumePoint(t *testing.T) {
	ahead := happened(1, 5, 6)
	ahead.Header = at(1000)
	for _, tc := range []struct {
		name    string
		from    int64
		arrives func(*script)
		next    int64
	}{
		{"never confirmed", 0, func(*script) {}, 0},
		{"from now on", 0, func(sc *script) { sc.receives(created(1, 10)) }, 11},
		{"from now on, confirmed by a proxy without a revision", 0, func(sc *script) { sc.receives(created(1, 0)) }, 0},
		{"and then events", 0, func(sc *script) { sc.receives(created(1, 0), happened(1, 7)) }, 8},
		{"a confirmation does not move a given start", 5, func(sc *script) { sc.receives(created(1, 10)) }, 5},
		{"nor a start in the future", 50, func(sc *script) { sc.receives(created(1, 10)) }, 50},
		{"events", 5, func(sc *script) { sc.receives(created(1, 10), happened(1, 5, 7)) }, 8},
		{"events of a server that is ahead", 5, func(sc *script) { sc.receives(created(1, 1000), ahead) }, 7},
		{"events seen before", 5, func(sc *script) { sc.receives(created(1, 10), happened(1, 6), happened(1, 5, 6)) }, 7},
		{"progress", 5, func(sc *script) { sc.receives(created(1, 10), progressed(1, 20)) }, 21},
		{"progress for all", 5, func(sc *script) { sc.receives(created(1, 10)); sc.answersProgress(20) }, 21},
		{"progress from before the start", 50, func(sc *script) { sc.receives(created(1, 10), progressed(1, 20)) }, 50},
		{"progress for all from before the start", 50, func(sc *script) { sc.receives(created(1, 10)); sc.answersProgress(20) }, 50},
		{"progress without a revision", 5, func(sc *script) { sc.receives(created(1, 10), progressed(1, 0)); sc.answersProgress(0) }, 5},
		{"a fragment", 5, func(sc *script) { sc.receives(created(1, 10), fragment(1, 5, 6)) }, 6},
		{"fragments", 5, func(sc *script) { sc.receives(created(1, 10), fragment(1, 5, 6), happened(1, 6, 8)) }, 9},
	} {
		t.Run(tc.name, func(t *testing.T) {
			sc := connected(t)
			f := sc.follow(tc.from)
			tc.arrives(sc)
			assert.Equal(t, tc.next, f.sub.next)
			sc.reconnect()
			assert.Equal(t, tc.next, sc.ss.take()[0].GetCreateRequest().StartRevision)
		})
	}
}

// Progress for all does not complete a fragmented batch; a last fragment without events does.
func TestProgressBetweenFragments(t *testing.T) {
	sc := connected(t)
	f := sc.follow(5)
	sc.receives(created(1, 10), fragment(1, 5, 6))
	sc.answersProgress(20)
	assert.EqualValues(t, 6, f.sub.next)
	sc.receives(happened(1, 6, 7), fragment(1, 21, 22), progressed(1, 22))
	assert.Equal(t, []string{"created", "events [5]", "events [6 6 7]", "events [21]", "events [22]"}, f.takeReceived())
}
