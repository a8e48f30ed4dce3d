package leaderelection_test

import (
	"context"
	"errors"
	"math"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/concurrency"
	"github.com/quorate/quorate/clientv3/internal/clienttest"
	. "github.com/quorate/quorate/clientv3/leaderelection"
	"github.com/quorate/quorate/clientv3/mock/fakeetcd"
	"github.com/quorate/quorate/observe/introspect"
)

// soon is within what a successor may take.
const soon = 100 * time.Millisecond

func TestSuccessorLeadsAtOnce(t *testing.T) {
	done := errors.New("done")
	for name, tt := range map[string]struct {
		end  func(r *running, l *lead)
		want error
	}{
		"after a return":   {func(_ *running, l *lead) { l.leave <- nil }, nil},
		"after an error":   {func(_ *running, l *lead) { l.leave <- done }, done},
		"after the cancel": {func(r *running, l *lead) { r.cancel(); <-l.ctx.Done(); l.leave <- l.ctx.Err() }, context.Canceled},
	} {
		t.Run(name, func(t *testing.T) {
			withRig(t, func(t *testing.T, r *rig) {
				_, l := r.leads(t, Config{Value: "ann"})
				require.Equal(t, "ann", string(r.Get(l.term.Key()).Value))
				p := r.process(t)
				second := p.run(t, Config{})
				time.Sleep(5 * time.Minute)
				second.requireWaiting(t)
				require.NoError(t, l.ctx.Err(), "the lease is renewed")
				require.Equal(t, l.began, l.term.Since())

				end := time.Now()
				tt.end(l.run, l)
				successor := second.leads(t)
				require.WithinDuration(t, end, successor.began, soon)
				require.Equal(t, tt.want, l.run.ends(t))
				require.Greater(t, successor.term.Revision(), l.term.Revision())
				require.ErrorIs(t, l.term.Err(), ErrReturned)
				successor.finish(t)
				r.requireNothingLeft(t, p)
			})
		})
	}
}

// A process whose connections are cut ends its term before another one leads.
func TestTermEndsBeforeAnotherCanLead(t *testing.T) {
	for name, tt := range map[string]struct {
		cfg    Config
		margin time.Duration
	}{
		"default": {Config{}, 3 * time.Second},
		"chosen":  {Config{TTL: 30 * time.Second, Margin: 12 * time.Second}, 12 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			withRig(t, func(t *testing.T, r *rig) {
				p, l := r.leads(t, tt.cfg)
				second := r.process(t).run(t, tt.cfg)
				time.Sleep(time.Minute)
				second.requireWaiting(t)
				deadline := l.term.Deadline()
				require.Greater(t, time.Until(deadline), time.Duration(0))
				p.Cut()

				require.ErrorIs(t, l.lost(t), ErrNotRenewed)
				require.Equal(t, deadline, l.ended)
				sent := r.Count("Txn")
				_, err := l.term.KV().Put(t.Context(), "plan", "late")
				require.Equal(t, l.term.Err(), err)
				require.Equal(t, sent, r.Count("Txn"), "nothing is sent")

				successor := second.leads(t)
				require.Equal(t, tt.margin, successor.began.Sub(l.ended))
				p.Heal()
				l.leave <- nil
				l.run.requireWaiting(t)
				time.Sleep(time.Minute)
				require.Len(t, r.candidates(t, p, "office"), 2, "it campaigns again")
				successor.leave <- nil
				again := l.run.leads(t)
				require.Greater(t, again.term.Revision(), successor.term.Revision())
				again.leave <- nil
			})
		})
	}
}

// A process that could not resign while its connections were cut has one key again when they are healed, long before the
// lease of the earlier one ends.
func TestOneCandidacyAfterAnOutage(t *testing.T) {
	withRig(t, func(t *testing.T, r *rig) {
		p, l := r.leads(t, Config{TTL: time.Hour, Margin: 30 * time.Minute, Holders: 2})
		p.Cut()
		l.lost(t)
		l.leave <- nil
		time.Sleep(time.Minute) // it has given up resigning
		p.Heal()
		again := l.run.leads(t)
		require.WithinDuration(t, l.ended.Add(time.Minute), again.began, time.Minute)
		require.Equal(t, []string{again.term.Key()}, r.candidates(t, p, "office"))
		again.finish(t)
		r.requireNothingLeft(t, p)
	})
}

// A holder that does not run until its successor leads: what it has sent arrives late, and what it sends is refused.
func TestFrozenHolderWritesNothing(t *testing.T) {
	withRig(t, func(t *testing.T, r *rig) {
		p, l := r.leads(t, Config{})
		second := r.process(t).run(t, Config{})
		synctest.Wait()
		clienttest.Must(l.term.KV().Put(t.Context(), "plan", "first"))

		resume := make(chan struct{})
		r.Once("Txn", func(call *fakeetcd.Call) {
			<-resume
			_, err := call.Execute()
			assert.NoError(t, err)
		})
		sent := make(chan error, 1)
		go func() {
			_, err := l.term.KV().Put(context.WithoutCancel(l.ctx), "plan", "sent before")
			sent <- err
		}()
		synctest.Wait()
		require.NoError(t, r.ExpireLease(leaseOf(r, l))) // its renewals have not arrived
		successor := second.leads(t)
		clienttest.Must(successor.term.KV().Put(t.Context(), "plan", "second"))
		close(resume)

		var ended *TermEndedError
		require.ErrorAs(t, <-sent, &ended)
		_, err := l.term.KV().Put(t.Context(), "plan", "sent after")
		require.ErrorAs(t, err, &ended)
		resp := clienttest.Must(p.Txn(t.Context()).If(l.term.Fence()).Then(clientv3.OpPut("plan", "by hand")).Commit())
		require.False(t, resp.Succeeded)
		require.Equal(t, "second", string(r.Get("plan").Value))
		l.run.cancel()
		l.leave <- nil
		successor.leave <- nil
		l.run.ends(t)
		second.ends(t)
	})
}

func leaseOf(r *rig, l *lead) int64 { return r.Get(l.term.Key()).Lease }

func TestLoss(t *testing.T) {
	failed := errors.New("failed")
	for name, tt := range map[string]struct {
		lose func(t *testing.T, r *rig, p *process, l *lead)
		want error
	}{
		"its lease is revoked": {func(t *testing.T, r *rig, _ *process, l *lead) {
			require.NoError(t, r.ExpireLease(leaseOf(r, l)))
		}, ErrKeyDeleted},
		"its key is deleted": {func(t *testing.T, _ *rig, p *process, l *lead) {
			clienttest.Must(p.Delete(t.Context(), l.term.Key()))
		}, ErrKeyDeleted},
		"its key is deleted and put again": {func(t *testing.T, r *rig, p *process, l *lead) {
			id := clientv3.LeaseID(leaseOf(r, l))
			clienttest.Must(p.Delete(t.Context(), l.term.Key()))
			clienttest.Must(p.Put(t.Context(), l.term.Key(), "", clientv3.WithLease(id)))
		}, ErrKeyDeleted},
		"its Lease is closed": {func(t *testing.T, _ *rig, p *process, _ *lead) {
			require.NoError(t, p.Lease.Close())
			p.Lease = clientv3.NewLease(p.Client)
		}, clientv3.ErrKeepAliveHalted{Reason: context.Canceled}},
	} {
		for _, again := range []bool{true, false} {
			t.Run(name, func(t *testing.T) {
				withRig(t, func(t *testing.T, r *rig) {
					p, l := r.leads(t, Config{ReturnOnLoss: !again})
					time.Sleep(time.Second) // no renewal is due
					tt.lose(t, r, p, l)
					lost := l.lost(t)
					require.ErrorIs(t, lost, tt.want)
					require.ErrorContains(t, lost, l.term.Key())
					l.leave <- failed
					end := time.Now()
					if !again {
						err := l.run.ends(t)
						require.ErrorIs(t, err, lost)
						require.ErrorIs(t, err, failed)
						r.requireNothingLeft(t, p)
						return
					}
					next := l.run.leads(t)
					require.WithinRange(t, next.began, end, end.Add(DefaultRetryPeriod))
					require.Greater(t, next.term.Revision(), l.term.Revision())
					next.finish(t)
				})
			})
		}
	}
}

// A leader that may not watch its key reads it, less and less often.
func TestKeyThatCannotBeWatched(t *testing.T) {
	withRig(t, func(t *testing.T, r *rig) {
		clienttest.RefuseWatches(r.Cluster, rpctypes.ErrPermissionDenied)
		p, l := r.leads(t, Config{})
		before := r.Count("Range")
		time.Sleep(10 * time.Minute)
		require.Less(t, r.Count("Range")-before, 140)
		clienttest.Must(p.Delete(t.Context(), l.term.Key()))
		clienttest.Put(t, r.Cluster, l.term.Key(), "of another one")
		require.ErrorIs(t, l.lost(t), ErrKeyDeleted)
		l.leave <- nil
	})
}

// After an outage that has ended all leases, the candidates do not return at one moment.
func TestCandidatesReturnSpreadOverThePeriod(t *testing.T) {
	withRig(t, func(t *testing.T, r *rig) {
		const candidates = 20
		all := make([]*running, candidates)
		for i := range all {
			all[i] = r.process(t).run(t, Config{Holders: candidates, RetryPeriod: 8 * time.Second})
		}
		for _, run := range all {
			l := run.leads(t)
			require.NoError(t, r.ExpireLease(leaseOf(r, l)))
			l.lost(t)
			l.leave <- nil
		}
		end := time.Now()
		var pauses []time.Duration
		for _, run := range all {
			l := run.leads(t)
			pauses = append(pauses, l.began.Sub(end))
			defer func() { l.leave <- nil }()
		}
		slices.Sort(pauses)
		assert.Less(t, pauses[candidates-1], 8*time.Second)
		assert.Less(t, pauses[0], 5*time.Second) // the probability that all are longer is (3/8)^20, 3 in a billion
		assert.Greater(t, pauses[candidates-1]-pauses[0], 3*time.Second)
	})
}

func TestPausesGrowWithFailures(t *testing.T) {
	withRig(t, func(t *testing.T, r *rig) {
		var at []time.Time
		r.On("LeaseGrant", func(call *fakeetcd.Call) {
			at = append(at, time.Now())
			call.Answer(nil, rpctypes.ErrGRPCNoSpace)
		})
		running := r.process(t).run(t, Config{})
		time.Sleep(time.Hour)
		running.cancel()
		require.ErrorIs(t, running.ends(t), context.Canceled)
		require.Greater(t, len(at), 200)
		require.Less(t, len(at), 800, "8 s on average")
	})
}

// A candidate campaigns again after its lease has ended in an outage, and leaves no key when its context ends.
func TestCancelWhileWaitingLeavesNoKey(t *testing.T) {
	for name, holders := range map[string]int{"election": 1, "semaphore": 2} {
		t.Run(name, func(t *testing.T) {
			withRig(t, func(t *testing.T, r *rig) {
				p := r.process(t)
				var held []*lead
				for range holders {
					held = append(held, r.process(t).run(t, Config{Holders: holders}).leads(t))
				}
				waiting := p.run(t, Config{Holders: holders})
				time.Sleep(time.Minute)
				waiting.requireWaiting(t)
				require.Len(t, r.candidates(t, p, "office"), holders+1)
				p.Cut()
				time.Sleep(time.Minute)
				p.Heal()
				time.Sleep(time.Minute)
				waiting.requireWaiting(t)
				require.Len(t, r.candidates(t, p, "office"), holders+1, "it campaigns again")
				start := time.Now()
				waiting.cancel()
				require.Equal(t, context.Canceled, waiting.ends(t))
				require.WithinDuration(t, start, time.Now(), soon)
				require.Len(t, r.candidates(t, p, "office"), holders)
				for _, l := range held {
					l.leave <- nil
				}
				synctest.Wait()
				r.requireNothingLeft(t, p)
			})
		})
	}
}

// The request that puts the key is executed after the cancel.
func TestCancelBeforeTheKeyIsPut(t *testing.T) {
	withRig(t, func(t *testing.T, r *rig) {
		p := r.process(t)
		resume, executed := make(chan struct{}), make(chan error, 1)
		r.Once("Txn", func(call *fakeetcd.Call) {
			<-resume
			_, err := call.Execute()
			executed <- err
		})
		waiting := p.run(t, Config{})
		synctest.Wait()
		waiting.cancel()
		require.Equal(t, context.Canceled, waiting.ends(t))
		close(resume)
		require.ErrorIs(t, <-executed, rpctypes.ErrGRPCLeaseNotFound)
		r.requireNothingLeft(t, p)
	})
}

// The function ends its work after the cancel, however long that takes, and still holds the key.
func TestLeaseIsRenewedUntilTheFunctionReturns(t *testing.T) {
	withRig(t, func(t *testing.T, r *rig) {
		_, l := r.leads(t, Config{})
		second := r.process(t).run(t, Config{})
		synctest.Wait()
		l.run.cancel()
		<-l.ctx.Done()
		require.Equal(t, context.Canceled, context.Cause(l.ctx))
		time.Sleep(time.Minute)
		second.requireWaiting(t)
		require.NoError(t, l.term.Err())
		clienttest.Must(l.term.KV().Put(t.Context(), "plan", "the last"))
		l.finish(t)
		second.leads(t).leave <- nil
	})
}

func TestResignIsBounded(t *testing.T) {
	withRig(t, func(t *testing.T, r *rig) {
		p, l := r.leads(t, Config{ResignTimeout: 2 * time.Second})
		waiting := p.run(t, Config{ResignTimeout: 2 * time.Second})
		synctest.Wait()
		p.Cut()
		start := time.Now()
		waiting.cancel()
		require.Equal(t, context.Canceled, waiting.ends(t))
		require.Equal(t, 2*time.Second, time.Since(start))
		l.finish(t)
		require.Equal(t, 4*time.Second, time.Since(start))
		require.Len(t, p.logs.FilterMessageSnippet("cannot resign").All(), 2)
	})
}

func TestPanicResigns(t *testing.T) {
	for name, tt := range map[string]struct {
		end  func()
		want any
	}{
		"panic":  {func() { panic("broken") }, "broken"},
		"Goexit": {runtime.Goexit, nil},
	} {
		t.Run(name, func(t *testing.T) {
			withRig(t, func(t *testing.T, r *rig) {
				p := r.process(t)
				panicked := make(chan any)
				stopped := 0
				cfg := Config{Name: "office", Hooks: Hooks{StoppedLeading: func(_ *Term, loss error) {
					assert.NoError(t, loss)
					stopped++
				}}}
				go func() {
					defer func() { panicked <- recover() }()
					_ = Run(t.Context(), p.Client, cfg, func(context.Context, *Term) error {
						tt.end()
						return nil
					})
				}()
				require.Equal(t, tt.want, <-panicked)
				require.Equal(t, 1, stopped)
				r.requireNothingLeft(t, p)
			})
		})
	}
}

func TestKeysAreThoseOfLocksAndElections(t *testing.T) {
	withRig(t, func(t *testing.T, r *rig) {
		p := r.process(t)
		s := clienttest.Must(concurrency.NewSession(p.Client))
		defer s.Close()
		m := concurrency.NewMutex(s, "office")
		require.NoError(t, m.Lock(t.Context()))
		running := r.process(t).run(t, Config{})
		time.Sleep(time.Minute)
		running.requireWaiting(t)
		require.NoError(t, m.Unlock(t.Context()))
		l := running.leads(t)
		require.Equal(t, concurrency.ErrLocked, m.TryLock(t.Context()))
		resp := clienttest.Must(concurrency.NewElection(s, "office").Leader(t.Context()))
		require.Equal(t, l.term.Key(), string(resp.Kvs[0].Key))
		l.leave <- nil
	})
}

func TestHooks(t *testing.T) {
	withRig(t, func(t *testing.T, r *rig) {
		p := r.process(t)
		var events []string
		var losses []error
		var leaders []Leader
		cfg := Config{Value: "ann", Hooks: Hooks{
			StartedLeading: func(*Term) { events = append(events, "started") },
			StoppedLeading: func(term *Term, loss error) {
				assert.NotNil(t, r.Get(term.Key()), "it has not resigned yet")
				events, losses = append(events, "stopped"), append(losses, loss)
			},
			NewLeader: func(l Leader) { leaders = append(leaders, l) },
		}}
		running := p.run(t, cfg)
		l := running.leads(t)
		l.finish(t)

		_, b := r.leads(t, Config{Value: "bob"})
		running = p.run(t, cfg)
		time.Sleep(time.Minute)
		b.leave <- nil
		next := running.leads(t)
		synctest.Wait()
		next.finish(t)
		require.Equal(t, []string{"started", "stopped", "started", "stopped"}, events)
		require.Equal(t, []error{nil, nil}, losses)
		require.Equal(t, Leader{"bob", b.term.Key(), b.term.Revision(), leaders[len(leaders)-2].Since}, leaders[len(leaders)-2])
		require.Equal(t, Leader{"ann", next.term.Key(), next.term.Revision(), next.began}, leaders[len(leaders)-1])
		require.Len(t, p.logs.FilterMessage("leads").All(), 2)
		require.Len(t, p.logs.FilterMessage("leads no more").All(), 2)
	})
}

func TestMetrics(t *testing.T) {
	withRig(t, func(t *testing.T, r *rig) {
		var m Metrics
		requireValues := func(want ...float64) {
			t.Helper()
			synctest.Wait()
			var values []float64
			for _, metric := range m.Metrics() {
				values = append(values, metric.Value)
			}
			require.Equal(t, want, values, "leading, age, terms, losses")
		}
		requireValues(0, 0, 0, 0)
		_, l := r.leads(t, Config{Metrics: &m})
		time.Sleep(7 * time.Second)
		requireValues(1, 7, 1, 0)
		require.NoError(t, r.ExpireLease(leaseOf(r, l)))
		l.lost(t)
		requireValues(0, 0, 1, 1)
		l.leave <- nil
		l = l.run.leads(t)
		requireValues(1, 0, 2, 1)
		l.finish(t)
		requireValues(0, 0, 2, 1)
	})
}

func TestReport(t *testing.T) {
	withRig(t, func(t *testing.T, r *rig) {
		first, second := r.process(t), r.process(t)
		elections := func(p *process) []introspect.Election {
			synctest.Wait()
			return p.Client.Introspect(introspect.Options{}).Elections
		}
		require.Empty(t, elections(first))
		l := first.run(t, Config{}).leads(t)
		waiting := second.run(t, Config{})
		time.Sleep(7 * time.Second)
		require.Equal(t, []introspect.Election{{Name: "office", Leading: true, Key: l.term.Key(), Revision: l.term.Revision(), LeadingSeconds: 7}}, elections(first))
		require.Equal(t, []introspect.Election{{Name: "office"}}, elections(second))
		l.finish(t)
		require.Empty(t, elections(first))
		next := waiting.leads(t)
		require.True(t, elections(second)[0].Leading)
		require.NoError(t, r.ExpireLease(leaseOf(r, next)))
		next.lost(t)
		require.False(t, elections(second)[0].Leading, "although its function has not returned")
		waiting.cancel()
		next.finish(t)
	})
}

func TestOverrunIsLogged(t *testing.T) {
	withRig(t, func(t *testing.T, r *rig) {
		p, l := r.leads(t, Config{})
		overrun := func() int {
			synctest.Wait()
			return p.logs.FilterMessageSnippet("has not returned").Len()
		}
		p.Cut()
		l.lost(t)
		time.Sleep(3*time.Second - time.Nanosecond)
		require.Zero(t, overrun())
		time.Sleep(time.Nanosecond)
		require.Equal(t, 1, overrun())
		l.run.cancel()
		l.finish(t)
	})
}

func TestUselessCampaignsEnd(t *testing.T) {
	withRig(t, func(t *testing.T, r *rig) {
		p := r.process(t)
		r.Once("Txn", func(call *fakeetcd.Call) { call.Answer(nil, rpctypes.ErrGRPCPermissionDenied) })
		running := p.run(t, Config{})
		require.ErrorIs(t, running.ends(t), rpctypes.ErrPermissionDenied)
		r.requireNothingLeft(t, p)

		running = p.run(t, Config{})
		l := running.leads(t)
		require.NoError(t, p.Close())
		l.lost(t)
		l.leave <- nil
		require.ErrorContains(t, running.ends(t), "closing")
	})
}

// foreign is a Lease of a program that knows nothing of monitors.
type foreign struct{ clientv3.Lease }

func (f foreign) KeepAlive(ctx context.Context, id clientv3.LeaseID) (<-chan *clientv3.LeaseKeepAliveResponse, error) {
	return f.Lease.KeepAlive(clientv3.WithLeaseMonitor(ctx, nil), id)
}

func TestLeaseWithoutDeadline(t *testing.T) {
	withRig(t, func(t *testing.T, r *rig) {
		p := r.process(t)
		p.Lease = foreign{p.Lease}
		require.ErrorContains(t, p.run(t, Config{}).ends(t), "LeaseMonitor")
		r.requireNothingLeft(t, p)

		require.NoError(t, p.Lease.Close()) // no session opens
		running := p.run(t, Config{TTL: time.Hour})
		time.Sleep(time.Minute)
		require.LessOrEqual(t, len(clienttest.Must(p.Leases(t.Context())).Leases), 1, "each candidacy revokes its lease")
		running.cancel()
		require.ErrorIs(t, running.ends(t), context.Canceled)
	})
}

func TestConfig(t *testing.T) {
	for name, tt := range map[string]struct {
		cfg  Config
		want string
	}{
		"no name":               {Config{}, "Config.Name is empty"},
		"negative TTL":          {Config{Name: "n", TTL: -1}, "Config.TTL is -1ns: leave it out"},
		"short TTL":             {Config{Name: "n", TTL: time.Millisecond}, "Config.TTL is 1ms: set at least 1 s"},
		"long TTL":              {Config{Name: "n", TTL: math.MaxInt64}, "set at least 1 s, and at most 2500000h0m0s"},
		"negative margin":       {Config{Name: "n", Margin: -1}, "Config.Margin is -1ns"},
		"long margin":           {Config{Name: "n", Margin: 10 * time.Second}, "set a margin below 10s, or a longer TTL"},
		"negative timeout":      {Config{Name: "n", ResignTimeout: -1}, "Config.ResignTimeout is -1ns"},
		"negative period":       {Config{Name: "n", RetryPeriod: -1}, "Config.RetryPeriod is -1ns"},
		"long period":           {Config{Name: "n", TTL: 200 * 365 * 24 * time.Hour, RetryPeriod: math.MaxInt64}, "Config.RetryPeriod is 2562047h"},
		"negative holders":      {Config{Name: "n", Holders: -1}, "Config.Holders is -1"},
		"leader of a semaphore": {Config{Name: "n", Holders: 2, Hooks: Hooks{NewLeader: func(Leader) {}}}, "Hooks.NewLeader needs Config.Holders of 1"},
		"no function":           {Config{Name: "n"}, "Run needs a function that leads"},
	} {
		t.Run(name, func(t *testing.T) {
			require.ErrorContains(t, Run(t.Context(), nil, tt.cfg, nil), tt.want)
		})
	}
}

func TestTTLIsRoundedUp(t *testing.T) {
	withRig(t, func(t *testing.T, r *rig) {
		running := r.process(t).run(t, Config{TTL: 2500 * time.Millisecond})
		running.leads(t).finish(t)
		require.Equal(t, int64(3), r.Calls("LeaseGrant")[0].Request().(*pb.LeaseGrantRequest).TTL)
	})
}
