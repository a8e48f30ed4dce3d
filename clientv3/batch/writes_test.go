package batch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/internal/clienttest"
	"github.com/quorate/quorate/retry"
)

// whileInFlight runs a test whose writes wait, until it answers the RPC that it is given.
func whileInFlight(t *testing.T, test func(t *testing.T, s *stub, kv clientv3.KV, blocker *rpc)) {
	t.Helper()
	stubbed(t, func(t *testing.T, s *stub) {
		kv := New(s, shareAll)
		put(t.Context(), kv, "blocker", "")
		test(t, s, kv, s.next(t))
		s.idle(t)
	})
}

func TestWritesShareAnRPC(t *testing.T) {
	whileInFlight(t, func(t *testing.T, s *stub, kv clientv3.KV, blocker *rpc) {
		a := put(t.Context(), kv, "a", "1")
		b := put(t.Context(), kv, "b", "2")
		s.idle(t)
		blocker.answer()
		s.answerNext(t, "a", "b")
		for _, f := range []*future[*clientv3.PutResponse]{a, b} {
			resp := f.succeeds(t)
			require.Equal(t, int64(3), resp.Header.Revision)
			require.Equal(t, uint64(1), resp.Header.ClusterId)
		}
		require.NotSame(t, a.resp.Header, b.resp.Header)

		again := put(t.Context(), kv, "blocker", "")
		blocker = s.next(t)
		a = put(t.Context(), kv, "a", "3", clientv3.WithPrevKV())
		b = put(t.Context(), kv, "b", "4")
		blocker.answer()
		s.next(t).answer()
		again.succeeds(t)
		resp := a.succeeds(t)
		require.Equal(t, "1", string(resp.PrevKv.Value))
		b.succeeds(t)
	})
}

// TestDeletesShareAnRPC uses a full store: it refuses puts and everything in their RPCs.
func TestDeletesShareAnRPC(t *testing.T) {
	whileInFlight(t, func(t *testing.T, s *stub, kv clientv3.KV, blocker *rpc) {
		put := put(t.Context(), kv, "a", "1")
		remove := func(key string) *future[*clientv3.DeleteResponse] {
			return start(func() (*clientv3.DeleteResponse, error) { return kv.Delete(t.Context(), key) })
		}
		first := remove("blocker")
		alone := s.next(t)
		require.True(t, alone.op.IsDelete())
		present, absent := remove("b"), remove("absent")
		s.keys["b"] = &mvccpb.KeyValue{Key: []byte("b")}
		alone.answer()
		s.answerNext(t, "b", "absent")
		blocker.fail(rpctypes.ErrNoSpace)
		s.next(t).fail(rpctypes.ErrNoSpace)
		for f, want := range map[*future[*clientv3.DeleteResponse]]int64{first: 0, present: 1, absent: 0} {
			resp := f.succeeds(t)
			require.Equal(t, want, resp.Deleted)
			require.Equal(t, uint64(1), resp.Header.ClusterId)
		}
		put.fails(t, rpctypes.ErrNoSpace)
	})
}

// TestKeyIsWrittenOnceInAnRPC puts a key that waits to be written.
func TestKeyIsWrittenOnceInAnRPC(t *testing.T) {
	whileInFlight(t, func(t *testing.T, s *stub, kv clientv3.KV, blocker *rpc) {
		first := put(t.Context(), kv, "k", "1")
		other := put(t.Context(), kv, "other", "1")
		second := put(t.Context(), kv, "k", "2")
		s.next(t).answer()
		second.succeeds(t)
		blocker.answer()
		s.answerNext(t, "k", "other")
		first.succeeds(t)
		other.succeeds(t)
	})
}

func TestRefusedWritesAreSentAlone(t *testing.T) {
	for _, refusal := range []error{
		rpctypes.ErrLeaseNotFound, rpctypes.ErrPermissionDenied, rpctypes.ErrTooManyOps, rpctypes.ErrRequestTooLarge,
		rpctypes.ErrKeyNotFound, rpctypes.ErrDuplicateKey,
		&retry.NotSentError{Err: status.Error(codes.ResourceExhausted, "grpc: received message larger than max (716 vs. 589)")},
	} {
		whileInFlight(t, func(t *testing.T, s *stub, kv clientv3.KV, blocker *rpc) {
			good, bad := put(t.Context(), kv, "good", "1"), put(t.Context(), kv, "bad", "1", clientv3.WithLease(7))
			blocker.answer()
			require.Equal(t, retry.OutcomeNotExecuted, retry.OutcomeOf(refusal), refusal)
			s.next(t).fail(refusal)
			for range 2 {
				r := s.next(t)
				require.True(t, r.op.IsPut())
				if r.keys()[0] == "bad" {
					r.fail(rpctypes.ErrLeaseNotFound)
				} else {
					r.answer()
				}
			}
			good.succeeds(t)
			bad.fails(t, rpctypes.ErrLeaseNotFound)
		})
	}
}

// refuseDead answers all RPCs but those with a put under a lease that is dead, and returns how many there were, and of how
// many operations.
func refuseDead(t *testing.T, s *stub, dead clientv3.LeaseID) (sizes []int) {
	t.Helper()
	for synctest.Wait(); len(s.sent) > 0; synctest.Wait() {
		r := s.next(t)
		sizes = append(sizes, len(r.keys()))
		_, ops, _ := r.op.Txn()
		if slices.ContainsFunc(append(ops, r.op), func(op clientv3.Op) bool { return op.LeaseID() == dead }) {
			r.fail(rpctypes.ErrLeaseNotFound)
		} else {
			r.answer()
		}
	}
	return sizes
}

// TestABadWriteCostsItsGroupLittle refuses one write of many. The others stay together.
func TestABadWriteCostsItsGroupLittle(t *testing.T) {
	whileInFlight(t, func(t *testing.T, s *stub, kv clientv3.KV, blocker *rpc) {
		var good []*future[*clientv3.PutResponse]
		var bad *future[*clientv3.PutResponse]
		for i := range 64 {
			if i == 41 {
				bad = put(t.Context(), kv, "bad", "", clientv3.WithLease(7))
			}
			good = append(good, put(t.Context(), kv, fmt.Sprint("k", i), ""))
		}
		blocker.answer()
		sizes := refuseDead(t, s, 7)
		require.Equal(t, 65, sizes[0])
		require.LessOrEqual(t, len(sizes), 1+4*4, "%v", sizes)
		bad.fails(t, rpctypes.ErrLeaseNotFound)
		succeed(t, good...)
		require.Len(t, s.keys, 65, "each was written, and the blocker")
	})
}

// TestWhatWasRefusedTravelsAlone writes with a lease that was refused, and to a key that was, within a second and later.
func TestWhatWasRefusedTravelsAlone(t *testing.T) {
	whileInFlight(t, func(t *testing.T, s *stub, kv clientv3.KV, blocker *rpc) {
		bad := func(key string) *future[*clientv3.PutResponse] {
			return put(t.Context(), kv, key, "", clientv3.WithLease(7))
		}
		denied := func() *future[*clientv3.PutResponse] { return put(t.Context(), kv, "denied", "") }
		hold := func() (release func()) {
			put(t.Context(), kv, "blocker", "")
			return s.next(t).answer
		}
		blocker.answer()
		bad("first") // alone: nothing is in flight
		s.next(t).fail(rpctypes.ErrLeaseNotFound)
		denied()
		s.next(t).fail(rpctypes.ErrPermissionDenied)

		time.Sleep(refusedFor / 2)
		release := hold()
		put(t.Context(), kv, "a", "")
		put(t.Context(), kv, "b", "")
		s.idle(t)
		bad("second")
		require.Equal(t, []string{"second"}, s.next(t).keys())
		denied()
		require.Equal(t, []string{"denied"}, s.next(t).keys())
		release()
		s.answerNext(t, "a", "b")

		time.Sleep(refusedFor)
		release = hold()
		bad("third")
		denied()
		s.idle(t)
		release()
		require.Equal(t, []string{"third", "denied"}, s.next(t).keys())
	})
}

// TestAGroupIsTriedAsLongAsItsWrites retries a group until the last deadline of its writes, if all have one.
func TestAGroupIsTriedAsLongAsItsWrites(t *testing.T) {
	whileInFlight(t, func(t *testing.T, s *stub, kv clientv3.KV, blocker *rpc) {
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		long := clienttest.Within(t)
		last, _ := long.Deadline()
		put(short, kv, "a", "")
		put(long, kv, "b", "")
		blocker.answer()
		group := s.next(t)
		until, ok := group.ctx.Deadline()
		require.True(t, ok)
		require.True(t, until.After(last), "the caller's own context ends first")
		put(long, kv, "c", "")
		put(t.Context(), kv, "d", "")
		group.answer()
		_, ok = s.next(t).ctx.Deadline()
		require.False(t, ok)
	})
}

// TestEndOfAGroup checks that all writes of a group end alike, and that nothing is sent again: if the reason is not in the
// group, the client below has retried already; after a malformed response the group was executed, but there is no answer
// to return.
func TestEndOfAGroup(t *testing.T) {
	unknownOutcome := func(err error) error { return &retry.UnknownOutcomeError{Method: pb.KV_Txn_FullMethodName, Err: err} }
	unexpected := func(responses ...*pb.ResponseOp) result {
		return result{resp: (&clientv3.TxnResponse{Responses: responses}).OpResponse()}
	}
	for name, tt := range map[string]struct {
		group   result
		want    string // the error of each, "" for that of the group
		outcome retry.Outcome
	}{
		"overloaded":           {result{err: rpctypes.ErrTooManyRequests}, "", retry.OutcomeNotExecuted},
		"no leader":            {result{err: rpctypes.ErrNoLeader}, "", retry.OutcomeNotExecuted},
		"the connection broke": {result{err: unknownOutcome(status.Error(codes.Unavailable, "broken"))}, "", retry.OutcomeUnknown},
		"timeout":              {result{err: unknownOutcome(rpctypes.ErrTimeout)}, "", retry.OutcomeUnknown},
		"an unknown error":     {result{err: errors.New("who knows")}, "", retry.OutcomeUnknown},
		"too few responses":    {unexpected(), "batch: the response to", retry.OutcomeUnknown},
		"empty responses":      {unexpected(&pb.ResponseOp{}, &pb.ResponseOp{}), "batch: the response to", retry.OutcomeUnknown},
	} {
		t.Run(name, func(t *testing.T) {
			whileInFlight(t, func(t *testing.T, s *stub, kv clientv3.KV, blocker *rpc) {
				calls := []*future[*clientv3.PutResponse]{put(t.Context(), kv, "a", ""), put(t.Context(), kv, "b", "")}
				blocker.answer()
				s.next(t).reply <- tt.group
				for _, f := range calls {
					_, err := f.returned(t)
					if tt.want == "" {
						require.Equal(t, tt.group.err, err)
					} else {
						require.ErrorContains(t, err, tt.want)
					}
					require.Equal(t, tt.outcome, retry.OutcomeOf(err))
				}
			})
		})
	}
}

func TestCancelledWriteIsNotSent(t *testing.T) {
	whileInFlight(t, func(t *testing.T, s *stub, kv clientv3.KV, blocker *rpc) {
		ctx, cancel := context.WithCancel(t.Context())
		cancelled := put(ctx, kv, "k", "1")
		others := []*future[*clientv3.PutResponse]{put(t.Context(), kv, "a", ""), put(t.Context(), kv, "b", "")}
		cancel()
		_, err := cancelled.returned(t)
		require.ErrorIs(t, err, context.Canceled)
		require.Equal(t, retry.OutcomeNotExecuted, retry.OutcomeOf(err))
		_, err = kv.Put(clienttest.Ended(t), "k", "1")
		require.Equal(t, &retry.NotSentError{Err: context.Canceled}, err)
		again := put(t.Context(), kv, "k", "2")
		blocker.answer()
		batch := s.next(t)
		require.Equal(t, []string{"a", "b", "k"}, batch.keys())
		_, ops, _ := batch.op.Txn()
		require.Equal(t, "2", string(ops[2].ValueBytes()))
		batch.answer()
		succeed(t, append(others, again)...)
	})
}

// TestTurnOfACallerThatLeft ends the context of a caller that has been given its turn and has not noticed yet.
func TestTurnOfACallerThatLeft(t *testing.T) {
	d := New(newStub(), shareAll).puts
	op := clientv3.OpPut("k", "v")
	d.mu.Lock()
	c := d.enqueueLocked(t.Context(), d.kind.idOf(op), op)
	d.sendNextLocked()
	require.Equal(t, 1, d.inFlight)
	d.mu.Unlock()
	<-c.done
	_, err := d.await(clienttest.Ended(t), c)
	require.Equal(t, retry.OutcomeNotExecuted, retry.OutcomeOf(err))
	require.Zero(t, d.inFlight)
}

// TestRestOfAQueueIsSent queues more calls than fit into a batch, behind RPCs that are never answered.
func TestRestOfAQueueIsSent(t *testing.T) {
	stubbed(t, func(t *testing.T, s *stub) {
		kv := New(s, Config{GroupWrites: true, MaxAlone: 1, MaxBytes: 3*opOverhead + 100})
		put(t.Context(), kv, "blocker", "")
		hanging := []*rpc{s.next(t)}
		for i, size := range []int{1, 1, 150} { // the third fills a batch and is left
			put(t.Context(), kv, fmt.Sprint("k", i), strings.Repeat("v", size))
		}
		require.Len(t, s.sent, 1)
		time.Sleep(2 * shortestWait)
		synctest.Wait()
		for len(s.sent) > 0 {
			hanging = append(hanging, s.next(t))
		}
		sent := 0
		for _, r := range hanging {
			sent += len(r.keys())
			r.answer()
		}
		require.Equal(t, 4, sent)
	})
}

// TestHangingRPCDelaysNoOther makes calls while an RPC is never answered.
func TestHangingRPCDelaysNoOther(t *testing.T) {
	whileInFlight(t, func(t *testing.T, s *stub, kv clientv3.KV, blocker *rpc) {
		for i := range 100 {
			began := time.Now()
			f := put(t.Context(), kv, fmt.Sprint("k", i), "")
			f.pending(t)
			time.Sleep(shortestWait)
			s.next(t).answer()
			f.succeeds(t)
			require.LessOrEqual(t, time.Since(began), longestWait)
		}
		blocker.answer()
	})
}
