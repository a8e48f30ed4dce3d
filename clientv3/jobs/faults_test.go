package jobs_test

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/internal/clienttest"
	. "github.com/quorate/quorate/clientv3/jobs"
	"github.com/quorate/quorate/clientv3/mock/fakeetcd"
	"github.com/quorate/quorate/retry"
)

// refusing answers transactions with an error: all, or those that put.
func (r *rig) refusing(err error, all bool) *fakeetcd.Hook {
	return r.On("Txn", func(call *fakeetcd.Call) {
		for _, op := range call.Request.(*pb.TxnRequest).Success {
			if all || op.GetRequestPut() != nil {
				call.Answer(nil, err)
				return
			}
		}
	})
}

// writes reports whether a transaction puts a key of a job.
func writes(call *fakeetcd.Call, id string) bool {
	return slices.ContainsFunc(call.Request.(*pb.TxnRequest).Success, func(op *pb.RequestOp) bool {
		return strings.HasSuffix(string(op.GetRequestPut().GetKey()), "/"+id)
	})
}

// within returns the next value, which must come within a virtual time.
func within[T any](t *testing.T, c <-chan T, d time.Duration) (v T) {
	t.Helper()
	select {
	case v = <-c:
	case <-time.After(d):
		require.FailNow(t, "nothing happens", "within %v", d)
	}
	return v
}

// A refusal that would be the same again is returned, and the job can still be acknowledged.
func TestRefusedAck(t *testing.T) {
	withRig(t, func(t *testing.T, r *rig) {
		_, job := r.handles(t)
		ack := func(op clientv3.Op) error { return job.Ack(clienttest.Within(t), op) }
		require.Equal(t, codes.ResourceExhausted, retry.CodeOf(ack(clientv3.OpPut("sent", strings.Repeat("x", 3<<20)))))
		rev := r.Revision()
		require.NoError(t, r.Compact(rev))
		require.Equal(t, rpctypes.ErrCompacted, ack(clientv3.OpGet("sent", clientv3.WithRev(rev-1))))
		hook := r.refusing(rpctypes.ErrGRPCNoSpace, false)
		require.Equal(t, rpctypes.ErrNoSpace, ack(clientv3.OpPut("sent", "once")))
		hook.Remove()
		hook = r.refusing(status.Error(codes.ResourceExhausted, "grpc: received message larger than max (3145728 vs. 2097152)"), false)
		require.Equal(t, codes.ResourceExhausted, retry.CodeOf(ack(clientv3.OpPut("sent", "once"))))
		require.Equal(t, 3, hook.Ran())
		hook.Remove()
		require.NoError(t, job.Err())
		require.NoError(t, ack(clientv3.OpPut("sent", "once")))
		job.answer <- nil
		require.Equal(t, 1, r.PutCount("sent"))
	})
}

// The answer of the first request is lost, and the second one is refused: the outcome is unknown.
func TestAckRefusedAfterALostAnswer(t *testing.T) {
	withRig(t, func(t *testing.T, r *rig) {
		_, job := r.handles(t)
		r.Once("Txn", func(call *fakeetcd.Call) {
			_, _ = call.Execute()
			r.Once("Txn", func(call *fakeetcd.Call) { call.Answer(nil, rpctypes.ErrGRPCPermissionDenied) })
			call.BreakConn()
		})
		err := job.Ack(t.Context(), clientv3.OpPut("sent", "once"))
		require.Equal(t, retry.OutcomeUnknown, retry.OutcomeOf(err), "%v", err)
		require.NotNil(t, r.Get("sent"))
		job.answer <- err
	})
}

// An Ack after one of unknown outcome does not say that the job is not acknowledged.
func TestAckAfterOneOfUnknownOutcome(t *testing.T) {
	withRig(t, func(t *testing.T, r *rig) {
		p, job := r.handles(t)
		r.Once("Txn", func(call *fakeetcd.Call) {
			_, _ = call.Execute()
			<-call.Context().Done()
			call.Answer(nil, call.Context().Err())
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.Equal(t, retry.OutcomeUnknown, retry.OutcomeOf(job.Ack(ctx, clientv3.OpPut("sent", "once"))))
		err := job.Ack(t.Context(), clientv3.OpPut("sent", "once"))
		require.Equal(t, retry.OutcomeUnknown, retry.OutcomeOf(err), "%v", err)
		require.Equal(t, 1, r.PutCount("sent"))
		require.Error(t, job.Err())
		job.answer <- err
		require.Zero(t, p.settled(t))
	})
}

// The answer of an acknowledgement arrives after its handler has returned an error, and the job is gone.
func TestAckThatOutlastsItsHandler(t *testing.T) {
	withRig(t, func(t *testing.T, r *rig) {
		p, job := r.handles(t)
		release := make(chan struct{})
		r.Once("Txn", func(call *fakeetcd.Call) {
			resp, err := call.Execute()
			<-release
			call.Answer(resp, err)
		})
		acked := clienttest.Go(func() error { return job.Ack(t.Context()) })
		synctest.Wait()
		job.answer <- errFailed
		time.Sleep(time.Second)
		close(release)
		require.NoError(t, <-acked)
		require.Zero(t, p.settled(t))
	})
}

// While etcd refuses the list of the queue, Work begins again with another lease. Without permission it returns.
func TestRefusedListOfTheQueue(t *testing.T) {
	withRig(t, func(t *testing.T, r *rig) {
		p := r.process(t, Config{})
		p.enqueue(t, "letter")
		busy := r.On("Range", func(call *fakeetcd.Call) { call.Answer(nil, rpctypes.ErrGRPCTimeout) })
		w := p.work(t, 1, nil)
		time.Sleep(time.Minute)
		busy.Remove()
		w.next(t).answer <- nil
		r.On("Range", func(call *fakeetcd.Call) { call.Answer(nil, rpctypes.ErrGRPCPermissionDenied) })
		require.ErrorIs(t, p.Work(t.Context(), 1, func(context.Context, *Job) error { return nil }), rpctypes.ErrPermissionDenied)
	})
}

// Work returns even if etcd refuses to take its jobs back; the lease is revoked.
func TestEndOfWorkIsBounded(t *testing.T) {
	for name, refusal := range map[string]error{"no space": rpctypes.ErrGRPCNoSpace, "time out": rpctypes.ErrGRPCTimeout} {
		t.Run(name, func(t *testing.T) {
			withRig(t, func(t *testing.T, r *rig) {
				p := r.process(t, Config{})
				id := p.enqueue(t, "letter")
				w := p.work(t, 1, nil)
				job := w.next(t)
				hook := r.refusing(refusal, false)
				w.cancel()
				job.answer <- job.ctx.Err()
				w.result <- within(t, w.result, 15*time.Second)
				hook.Remove()
				require.Equal(t, Waiting, p.status(t, id).State)
			})
		})
	}
}

// A claim that succeeds after the end of Work is given back, and the log does not say that its handler has panicked.
func TestClaimAtTheEndOfWork(t *testing.T) {
	withRig(t, func(t *testing.T, r *rig) {
		core, logs := observer.New(zap.WarnLevel)
		logging := clienttest.NewProcess(t, r.Cluster, zap.New(core))
		p := &process{logging, clienttest.Must(New(logging.Client, Config{Name: "mail"}))}
		id := p.enqueue(t, "letter")
		ctx, cancel := context.WithCancel(t.Context())
		r.On("Txn", func(call *fakeetcd.Call) {
			if writes(call, id) {
				cancel()
			}
		})
		require.ErrorIs(t, p.Work(ctx, 1, func(context.Context, *Job) error { panic("it is called") }), context.Canceled)
		require.Equal(t, "context canceled", logs.All()[0].ContextMap()["failure"])
		require.Zero(t, p.status(t, id).Attempts)
	})
}

// A handler that ends its goroutine, as a panic does, is held up by refusals for a bounded time.
func TestPanicIsNotHeldUp(t *testing.T) {
	withRig(t, func(t *testing.T, r *rig) {
		p := r.process(t, Config{})
		first := p.enqueue(t, "letter")
		began, freed := make(chan struct{}), make(chan struct{}, 1)
		w := p.work(t, 1, func(_ context.Context, job *Job) error {
			if job.ID != first {
				freed <- struct{}{}
				return nil
			}
			r.On("Txn", func(call *fakeetcd.Call) {
				if writes(call, first) {
					call.Answer(nil, rpctypes.ErrGRPCTimeout)
				}
			})
			close(began)
			runtime.Goexit()
			return nil
		})
		clienttest.Next(t, began)
		p.enqueue(t, "another")
		within(t, freed, 15*time.Second)
		w.end(t)
	})
}

// Claims and dead letters that are refused are sent less and less often, however many places are free. So is each
// acknowledgement, three times at once while its outcome is unknown.
func TestRefusedTransactionsAreFew(t *testing.T) {
	denied := rpctypes.ErrGRPCPermissionDenied
	t.Run("claims", func(t *testing.T) { refused(t, denied, 0, time.Minute, 60, 0) })
	t.Run("dead letters", func(t *testing.T) { refused(t, denied, DefaultMaxAttempts, time.Minute, 60, 40) })
	t.Run("acknowledgements", func(t *testing.T) { refused(t, rpctypes.ErrGRPCLeaderChanged, 0, 0, 20*3*25, 0) })
}

func refused(t *testing.T, refusal error, attempts int, after time.Duration, most int, dead int64) {
	withRig(t, func(t *testing.T, r *rig) {
		p := r.process(t, Config{})
		for range 40 {
			id := p.enqueue(t, "letter")
			value := fmt.Sprintf(`{"attempts": %d, "notBefore": %d}`, attempts, time.Now().Add(after).UnixMilli())
			clienttest.Put(t, r.Cluster, "mail/live/states/"+id, value)
		}
		p.work(t, 20, func(context.Context, *Job) error { time.Sleep(40 * time.Second); return nil })
		time.Sleep(30 * time.Second)
		hook := r.refusing(refusal, true)
		before := r.Count("Txn")
		time.Sleep(90 * time.Second)
		sent := r.Count("Txn") - before
		require.Greater(t, sent, 5)
		require.Less(t, sent, most)
		hook.Remove()
		require.Equal(t, Counts{Dead: dead}, p.settled(t))
	})
}

// A worker does not see the value that it cannot read, so its claims are refused.
func TestStateThatCannotBeReadIsClaimedOnce(t *testing.T) {
	withRig(t, func(t *testing.T, r *rig) {
		p := r.process(t, Config{})
		id := p.enqueue(t, "letter", WithDelay(time.Minute))
		p.work(t, 1, func(context.Context, *Job) error { return nil })
		time.Sleep(30 * time.Second)
		key := "mail/live/states/" + id
		value := r.Get(key)
		clienttest.Put(t, r.Cluster, key, "\x00")
		var claims atomic.Int32
		r.On("Txn", func(c *fakeetcd.Call) {
			if slices.ContainsFunc(c.Request.(*pb.TxnRequest).Success, func(op *pb.RequestOp) bool {
				return string(op.GetRequestPut().GetKey()) == "mail/live/claims/"+id
			}) {
				claims.Add(1)
			}
		})
		time.Sleep(2 * time.Minute)
		require.EqualValues(t, 1, claims.Load())
		clienttest.Put(t, r.Cluster, key, string(value.Value))
		require.Zero(t, p.settled(t))
	})
}
