package channel

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc/codes"

	"github.com/quorate/quorate/balancer"
	"github.com/quorate/quorate/health/etcdprobe"
)

// overtakenAfter is how long a write of these tests may stay unanswered.
const overtakenAfter = balancer.DefaultWriteStallTimeout

// overtaker is a caller whose writes can be overtaken.
func overtaker() (*heldConn, *Caller) {
	conn := newHeldConn("a", "b", "c")
	c := newTestCaller(conn, nil)
	c.writes = &writes{monitor: c.monitor, timeout: overtakenAfter}
	c.monitor.SetEndpoints(conn.endpoints)
	return conn, c
}

// complete makes all endpoints complete some work.
func (c *heldConn) complete() {
	for _, e := range c.entries {
		e.Completed(time.Now(), time.Now())
	}
}

// read completes a linearizable read in a term.
func read(t *testing.T, conn *heldConn, c *Caller, term uint64) {
	t.Helper()
	n := len(conn.attempts())
	call := goRange(t.Context(), c)
	a := conn.latest(t, n+1)
	a.reply.(*pb.RangeResponse).Header = &pb.ResponseHeader{RaftTerm: term}
	a.answer <- nil
	require.True(t, call.ended())
}

func TestOvertakenWrites(t *testing.T) {
	for _, tt := range []struct {
		name  string
		known uint64 // the term when the write begins
		learn func(t *testing.T, conn *heldConn, c *Caller)
		idle  bool // the members complete no later work
		isCut bool
	}{
		{"a read shows the new term", 5, func(t *testing.T, conn *heldConn, c *Caller) { read(t, conn, c, 6) }, false, true},
		{"a member knows the new leader", 5, func(_ *testing.T, conn *heldConn, _ *Caller) {
			conn.entries[0].SetInfo(etcdprobe.Role{ID: 1, Leader: 2, Term: 6}, time.Now())
		}, false, true},
		{"its member completes nothing", 5, func(_ *testing.T, conn *heldConn, _ *Caller) {
			conn.entries[0].SetInfo(etcdprobe.Role{ID: 1, Leader: 2, Term: 6}, time.Now())
		}, true, false},
		{"a candidate in a new term", 5, func(_ *testing.T, conn *heldConn, _ *Caller) {
			conn.entries[0].SetInfo(etcdprobe.Role{ID: 1, Term: 6}, time.Now())
		}, false, false},
		{"the same term", 5, func(t *testing.T, conn *heldConn, c *Caller) { read(t, conn, c, 5) }, false, false},
		{"no term was known", 0, func(t *testing.T, conn *heldConn, c *Caller) { read(t, conn, c, 6) }, false, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				conn, c := overtaker()
				if tt.known > 0 {
					read(t, conn, c, tt.known)
				}
				older := goPut(t.Context(), c)
				olderAttempt := conn.latest(t, len(conn.attempts()))
				time.Sleep(10 * time.Second)
				require.False(t, older.ended(), "slow, but not lost")

				tt.learn(t, conn, c)
				time.Sleep(300 * time.Millisecond)
				if !tt.idle {
					conn.complete()
				}
				younger := goPut(t.Context(), c)
				youngerAttempt := conn.latest(t, len(conn.attempts()))
				time.Sleep(overtakenAfter - 310*time.Millisecond)
				require.False(t, older.ended())
				time.Sleep(2*writesTick + 20*time.Millisecond)
				if tt.isCut {
					require.True(t, older.ended())
					isUnknown(codes.Unavailable)(t, older.err)
					assert.ErrorContains(t, older.err, errOvertaken.Error())
				}
				time.Sleep(10 * time.Second)
				require.False(t, younger.ended())
				youngerAttempt.answer <- nil
				require.True(t, younger.ended())
				require.NoError(t, younger.err)
				if !tt.isCut {
					olderAttempt.answer <- nil
					require.True(t, older.ended())
					require.NoError(t, older.err)
				}
			})
		})
	}
}

// A write that waits for an endpoint is not lost with the old leader.
func TestUnsentWriteIsRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn, c := overtaker()
		read(t, conn, c, 5)
		call := goPut(t.Context(), c)
		conn.latest(t, 2).Ended(false)
		read(t, conn, c, 6)
		conn.complete()
		time.Sleep(2 * overtakenAfter)
		require.False(t, call.ended())
		conn.latest(t, 4).answer <- nil
		require.True(t, call.ended())
		require.NoError(t, call.err)
	})
}

// Compactions, and calls to a named member, may take long.
func TestCallsThatAreNotOvertaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn, c := overtaker()
		read(t, conn, c, 5)
		compaction := goCall(t.Context(), c, pb.KV_Compact_FullMethodName, &pb.CompactionRequest{}, &pb.CompactionResponse{})
		compacting := conn.latest(t, 2)
		named := newHeldConn("a")
		over := (&Channel{Caller: c}).Over(named).(*Caller)
		put := goPut(t.Context(), over)
		read(t, conn, c, 6)
		conn.complete()
		time.Sleep(time.Minute)
		require.False(t, compaction.ended())
		require.False(t, put.ended())
		compacting.answer <- nil
		named.latest(t, 1).answer <- nil
		require.True(t, compaction.ended())
		require.True(t, put.ended())
	})
}

// The list stays ordered, whichever write ends first.
func TestWritesInFlight(t *testing.T) {
	w := &writes{monitor: new(balancer.Monitor)}
	attempts := make([]*attempt, 5*writeShards)
	for i := range attempts {
		attempts[i] = newAttempt(t)
		w.add(attempts[i])
	}
	order := func() (forward, backward []*attempt) {
		for i := range w.inFlight {
			s := &w.inFlight[i]
			var reverse []*attempt
			for a := s.first; a != nil; a = a.queued.next {
				forward = append(forward, a)
			}
			for a := s.last; a != nil; a = a.queued.prev {
				reverse = append([]*attempt{a}, reverse...)
			}
			backward = append(backward, reverse...)
		}
		return forward, backward
	}
	left := attempts
	for n := range attempts {
		i := []int{0, len(left) / 2, len(left) - 1}[n%3] // the oldest, one between, the latest
		w.remove(left[i])
		left = append(append([]*attempt{}, left[:i]...), left[i+1:]...)
		forward, backward := order()
		require.ElementsMatch(t, left, forward)
		require.Equal(t, forward, backward)
	}
	assert.False(t, w.any())
	assert.True(t, w.ticking.Load())
}

// No timer runs without writes in flight.
func TestIdleWritesDoNotTick(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn, c := overtaker()
		call := goPut(t.Context(), c)
		conn.latest(t, 1).answer <- nil
		require.True(t, call.ended())
		time.Sleep(2 * writesTick)
		synctest.Wait()
		assert.False(t, c.writes.ticking.Load())
	})
}
