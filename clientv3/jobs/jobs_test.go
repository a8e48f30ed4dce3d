package jobs_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/internal/clienttest"
	. "github.com/quorate/quorate/clientv3/jobs"
	"github.com/quorate/quorate/clientv3/leaderelection"
	"github.com/quorate/quorate/clientv3/mock/fakeetcd"
	"github.com/quorate/quorate/retry"
)

var errFailed = errors.New("the recipient is unknown")

func TestJobIsHandledOnce(t *testing.T) {
	withRig(t, func(t *testing.T, r *rig) {
		p := r.process(t, Config{Worker: "ann"})
		id := p.enqueue(t, "letter")
		require.Equal(t, &Status{ID: id, Payload: "letter", State: Waiting}, p.status(t, id))
		require.Equal(t, "State(0)", State(0).String())

		w := p.work(t, 2, nil)
		job := w.next(t)
		require.Equal(t, "letter", job.Payload)
		require.Equal(t, 1, job.Attempt)
		require.Equal(t, &Status{ID: id, Payload: "letter", State: Running, Attempts: 1, Worker: "ann"}, p.status(t, id))
		_, err := p.Enqueue(t.Context(), "another", WithID(id))
		require.ErrorIs(t, err, ErrExists)
		require.ErrorIs(t, p.Remove(t.Context(), id), ErrRunning)
		clienttest.Must(job.KV().Put(t.Context(), "sent", "yes"))

		job.answer <- nil
		require.Zero(t, p.settled(t))
		_, err = p.Get(t.Context(), id)
		require.ErrorIs(t, err, ErrNotFound)
		time.Sleep(time.Hour)
		require.Empty(t, w.jobs)
		w.end(t)
		requireOnlyKeys(t, p, "sent")
	})
}

// requireOnlyKeys checks that there are no other keys, and no lease.
func requireOnlyKeys(t *testing.T, p *process, want ...string) {
	t.Helper()
	require.Equal(t, want, clienttest.Keys(t, p.Client, ""))
	require.Empty(t, clienttest.Must(p.Leases(t.Context())).Leases)
}

// A job whose handler fails is handled again after a backoff that doubles, and then is a dead letter.
func TestFailuresEndInADeadLetter(t *testing.T) {
	withRig(t, func(t *testing.T, r *rig) {
		p := r.process(t, Config{MaxAttempts: 4, MinBackoff: 10 * time.Second, MaxBackoff: 30 * time.Second})
		id := p.enqueue(t, "letter")
		w := p.work(t, 2, nil)
		var last time.Time
		for attempt := 1; attempt <= 4; attempt++ {
			job := w.next(t)
			require.Equal(t, attempt, job.Attempt)
			if attempt > 1 {
				bound := min(10*time.Second<<(attempt-2), 30*time.Second)
				require.WithinRange(t, job.began, last.Add(bound/2-time.Millisecond), last.Add(bound+100*time.Millisecond))
			}
			last = time.Now()
			job.answer <- errFailed
			synctest.Wait()
			require.ErrorIs(t, job.Err(), leaderelection.ErrReturned)
		}
		require.Equal(t, Counts{Dead: 1}, p.settled(t))
		require.Equal(t, &Status{ID: id, Payload: "letter", State: Dead, Attempts: 4, Error: errFailed.Error()}, p.status(t, id))
		require.NotContains(t, string(r.Get("mail/dead/"+id).Value), "notBefore")
		_, err := p.Enqueue(t.Context(), "another", WithID(id))
		require.ErrorIs(t, err, ErrExists)
		r.Once("Txn", clienttest.LoseAnswer)
		_, err = p.Enqueue(t.Context(), "letter", WithID(id))
		require.Equal(t, retry.OutcomeUnknown, retry.OutcomeOf(err))
		require.Equal(t, []string{id}, clienttest.Must(p.DeadLetters(t.Context(), 0)))
		time.Sleep(time.Hour)
		require.Empty(t, w.jobs)

		require.NoError(t, p.Retry(t.Context(), id))
		job := w.next(t)
		require.Equal(t, 1, job.Attempt)
		require.ErrorIs(t, p.Retry(t.Context(), id), ErrNotFound)
		job.answer <- nil
		require.Zero(t, p.settled(t))
	})
}

func TestDelayedAndRemovedJobs(t *testing.T) {
	withRig(t, func(t *testing.T, r *rig) {
		p := r.process(t, Config{})
		w := p.work(t, 2, nil)
		start := time.Now()
		late := p.enqueue(t, "late", WithDelay(time.Hour))
		removed := p.enqueue(t, "removed", WithDelay(time.Minute))
		first := p.enqueue(t, "first")
		job := w.next(t)
		require.Equal(t, first, job.ID)
		require.Less(t, time.Since(start), time.Second)
		job.answer <- nil
		require.NoError(t, p.Remove(t.Context(), removed))
		require.ErrorIs(t, p.Remove(t.Context(), removed), ErrNotFound)
		require.Equal(t, Waiting, p.status(t, late).State)
		job = w.next(t)
		require.Equal(t, late, job.ID)
		require.WithinDuration(t, start.Add(time.Hour), job.began, 100*time.Millisecond)
		job.answer <- nil
		require.Zero(t, p.settled(t))
	})
}

// A process whose connections are cut ends its handlers before another one can claim their jobs.
func TestHandlerEndsBeforeItsJobIsClaimedAgain(t *testing.T) {
	withRig(t, func(t *testing.T, r *rig) {
		cfg := Config{MinBackoff: time.Millisecond, TTL: 15 * time.Second, Margin: 4 * time.Second}
		lost := r.process(t, cfg)
		id := lost.enqueue(t, "letter")
		w := lost.work(t, 1, nil)
		first := w.next(t)
		other := r.process(t, cfg)
		others := other.work(t, 1, nil)
		time.Sleep(time.Minute)
		require.NoError(t, first.ctx.Err(), "the lease is renewed")

		lost.Cut()
		clienttest.Next(t, first.ctx.Done())
		ended := time.Now()
		var cause *leaderelection.TermEndedError
		require.ErrorAs(t, context.Cause(first.ctx), &cause)
		require.ErrorIs(t, first.Err(), leaderelection.ErrNotRenewed)
		second := others.next(t)
		require.GreaterOrEqual(t, second.began.Sub(ended), cfg.Margin)
		require.Equal(t, id, second.ID)
		require.Equal(t, 2, second.Attempt)
		require.Greater(t, second.Revision(), first.Revision())

		// It goes on as if it held the job.
		lost.Heal()
		resp := clienttest.Must(lost.Txn(t.Context()).If(first.Fence()).Then(clientv3.OpPut("sent", "twice")).Commit())
		require.False(t, resp.Succeeded)
		_, err := first.KV().Put(t.Context(), "sent", "twice")
		require.ErrorAs(t, err, &cause)
		require.ErrorAs(t, first.Ack(t.Context(), clientv3.OpPut("sent", "twice")), &cause)
		require.Nil(t, r.Get("sent"))
		first.answer <- nil
		require.NoError(t, second.Ack(t.Context(), clientv3.OpPut("sent", "once")))
		second.answer <- nil
		require.Zero(t, lost.settled(t))
		require.Equal(t, 1, r.PutCount("sent"))
	})
}

// A job that loses each of its workers is a dead letter, too.
func TestLostWorkersEndInADeadLetter(t *testing.T) {
	withRig(t, func(t *testing.T, r *rig) {
		cfg := Config{MaxAttempts: 3}
		p := r.process(t, cfg)
		id := p.enqueue(t, "poison")
		for attempt := range 3 {
			dying := r.process(t, cfg)
			w := dying.work(t, 1, nil)
			job := w.next(t)
			require.Equal(t, attempt+1, job.Attempt)
			dying.Cut()
			clienttest.Next(t, job.ctx.Done())
			job.answer <- nil
			require.NoError(t, dying.Close())
		}
		p.work(t, 1, func(context.Context, *Job) error { return errors.New("it is handled once too often") })
		require.Equal(t, Counts{Dead: 1}, p.settled(t))
		require.Equal(t, &Status{ID: id, Payload: "poison", State: Dead, Attempts: 3, Error: "the worker was lost"}, p.status(t, id))
	})
}

// Work waits for its handlers when it ends. Another process handles at once what they do not complete, as the same attempt.
func TestEndOfWorkReturnsJobs(t *testing.T) {
	withRig(t, func(t *testing.T, r *rig) {
		p, other := r.process(t, Config{}), r.process(t, Config{})
		completed, interrupted := p.enqueue(t, "completed"), p.enqueue(t, "interrupted")
		w := p.work(t, 2, nil)
		both := map[string]*held{}
		for range 2 {
			job := w.next(t)
			both[job.ID] = job
		}
		others := other.work(t, 2, nil)
		time.Sleep(time.Minute)
		w.cancel()
		clienttest.Next(t, both[interrupted].ctx.Done())
		time.Sleep(time.Minute)
		require.Empty(t, others.jobs, "the handlers have not returned")
		both[completed].answer <- nil
		both[interrupted].answer <- both[interrupted].ctx.Err()
		w.end(t)
		start := time.Now()
		job := others.next(t)
		require.Equal(t, interrupted, job.ID)
		require.Equal(t, 1, job.Attempt, "an interruption is no failure")
		require.WithinDuration(t, start, job.began, 500*time.Millisecond)
		job.answer <- nil
		require.Zero(t, other.settled(t))
	})
}

// The answers of claims and acknowledgements are lost: what they did is found out, and nothing is done twice.
func TestLostAnswers(t *testing.T) {
	withRig(t, func(t *testing.T, r *rig) {
		p := r.process(t, Config{})
		lose := func() { r.Once("Txn", clienttest.LoseAnswer) }
		lose()
		id, err := p.Enqueue(t.Context(), "letter")
		require.NoError(t, err, "it is read")

		w := p.work(t, 1, nil)
		w.next(t).answer <- nil // the place works, so that the next Txn is a claim
		require.Zero(t, p.settled(t))
		require.NotEmpty(t, id)
		synctest.Wait()

		put := clienttest.Must(r.process(t, Config{}).Enqueue(t.Context(), "held", WithDelay(time.Minute)))
		lose()
		job := w.next(t)
		require.Equal(t, put, job.ID)
		require.Equal(t, 1, job.Attempt)
		require.Equal(t, 1, p.status(t, put).Attempts)
		lose()
		require.NoError(t, job.Ack(t.Context(), clientv3.OpPut("sent", "once")))
		require.ErrorContains(t, job.Err(), "acknowledged")
		job.answer <- nil
		w.end(t)
		require.Equal(t, 1, r.PutCount("sent"))
		requireOnlyKeys(t, p, "sent")
	})
}

// A claim that is executed after it was given up is returned while all places are taken.
func TestLateClaimIsReturnedByABusyProcess(t *testing.T) {
	withRig(t, func(t *testing.T, r *rig) {
		p := r.process(t, Config{})
		w := p.work(t, 1, nil)
		time.Sleep(time.Minute)
		first := p.enqueue(t, "first", WithDelay(time.Minute))
		second := p.enqueue(t, "second", WithDelay(62*time.Second))
		resume := make(chan struct{})
		r.On("Txn", func(call *fakeetcd.Call) {
			if writes(call, first) {
				<-resume
			}
			_, _ = call.Execute()
		})
		job := w.next(t)
		require.Equal(t, second, job.ID)
		w.cancel() // it waits for the handler
		close(resume)
		time.Sleep(time.Second)
		require.Equal(t, &Status{ID: first, Payload: "first", State: Waiting}, p.status(t, first), "at once, whatever the clocks say")
		require.Equal(t, Running, p.status(t, second).State)
		job.answer <- nil
	})
}

func TestEnqueueWhoseOutcomeIsUnknown(t *testing.T) {
	withRig(t, func(t *testing.T, r *rig) {
		p := r.process(t, Config{})
		r.Once("Txn", func(call *fakeetcd.Call) { call.BreakConn() })
		id, err := p.Enqueue(t.Context(), "letter")
		require.Equal(t, retry.OutcomeUnknown, retry.OutcomeOf(err))
		again := clienttest.Must(p.Enqueue(t.Context(), "letter", WithID(id)))
		require.Equal(t, id, again)

		r.Once("Txn", clienttest.LoseAnswer)
		_, err = p.Enqueue(t.Context(), "another", WithID(id))
		require.Equal(t, retry.OutcomeUnknown, retry.OutcomeOf(err), "the job with this id is another one: %v", err)
	})
}

// The answer of an acknowledgement is lost, and its id is used again before the next request.
func TestIDIsUsedAgainAfterALostAnswer(t *testing.T) {
	withRig(t, func(t *testing.T, r *rig) {
		p := r.process(t, Config{})
		id := p.enqueue(t, "letter")
		w := p.work(t, 1, nil)
		job := w.next(t)
		r.Once("Txn", func(call *fakeetcd.Call) {
			_, _ = call.Execute()
			_, err := r.Put("mail/payloads/"+id, "another")
			assert.NoError(t, err)
			_, err = r.Put("mail/live/states/"+id, "{}")
			assert.NoError(t, err)
			call.BreakConn()
		})
		require.NoError(t, job.Ack(t.Context(), clientv3.OpPut("sent", "once")))
		job.answer <- nil
		again := w.next(t)
		require.Equal(t, "another", again.Payload)
		again.answer <- nil
		require.Zero(t, p.settled(t))
	})
}

// The claim of a job is deleted by hand: its handler ends, and the job is handled again.
func TestClaimDeletedByOthers(t *testing.T) {
	withRig(t, func(t *testing.T, r *rig) {
		p := r.process(t, Config{})
		id := p.enqueue(t, "letter")
		w := p.work(t, 2, nil)
		job := w.next(t)
		synctest.Wait()
		clienttest.Must(p.Delete(t.Context(), "mail/live/claims/"+id))
		clienttest.Next(t, job.ctx.Done())
		require.ErrorIs(t, context.Cause(job.ctx), leaderelection.ErrKeyDeleted)
		job.answer <- job.ctx.Err()
		again := w.next(t)
		require.Equal(t, 2, again.Attempt)
		again.answer <- nil
		require.Zero(t, p.settled(t))
	})
}

// Of many idle processes one claims a job, also if claims are slow, and each gets a similar share.
func TestClaimsAreFairAndFew(t *testing.T) {
	for _, latency := range []time.Duration{0, 100 * time.Millisecond} {
		withRig(t, func(t *testing.T, r *rig) {
			const processes, jobs = 5, 100
			r.On("Txn", func(call *fakeetcd.Call) { time.Sleep(latency); call.Answer(call.Execute()) })
			handled := make(chan int, jobs)
			for i := range processes {
				r.process(t, Config{}).work(t, 1, func(context.Context, *Job) error {
					handled <- i
					return nil
				})
			}
			time.Sleep(time.Minute)
			p, before := r.process(t, Config{}), r.Count("Txn")
			share := make(map[int]int)
			for i := range jobs {
				p.enqueue(t, fmt.Sprint(i))
				share[clienttest.Next(t, handled)]++
				synctest.Wait()
			}
			require.Zero(t, p.settled(t))
			require.Less(t, r.Count("Txn")-before, jobs*3+jobs/4, "three transactions are a job")
			require.Len(t, share, processes)
			for _, n := range share {
				require.Less(t, n, 5*jobs/(2*processes))
			}
		})
	}
}

func TestInvalidConfigurations(t *testing.T) {
	for want, cfg := range map[string]Config{
		"Config.Name is empty": {},
		"MaxAttempts is -1":    {Name: "q", MaxAttempts: -1},
		"MaxBackoff 1s":        {Name: "q", MinBackoff: time.Minute, MaxBackoff: time.Second},
	} {
		_, err := New(nil, cfg)
		require.ErrorContains(t, err, want)
	}
	withRig(t, func(t *testing.T, r *rig) {
		p := r.process(t, Config{TTL: time.Millisecond})
		none := func(context.Context, *Job) error { return nil }
		require.ErrorContains(t, p.Work(t.Context(), 1, none), "TTL is 1ms")
		require.ErrorContains(t, p.Work(t.Context(), 0, none), "0 places")
		_, err := p.Enqueue(t.Context(), "", WithID(""))
		require.ErrorContains(t, err, "the id is empty")
		r.On("LeaseGrant", func(call *fakeetcd.Call) { call.Answer(nil, rpctypes.ErrGRPCPermissionDenied) })
		require.Equal(t, rpctypes.ErrPermissionDenied, r.process(t, Config{}).Work(t.Context(), 1, none))
	})
}
