package leaderelection

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.uber.org/zap"
	"google.golang.org/grpc/codes"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/concurrency"
	"github.com/quorate/quorate/clientv3/internal/grant"
	"github.com/quorate/quorate/internal/pause"
	"github.com/quorate/quorate/observe"
	"github.com/quorate/quorate/observe/introspect"
	"github.com/quorate/quorate/retry"
)

// errNoDeadline says that no term can be shown to be valid.
var errNoDeadline = errors.New("leaderelection: the client's Lease reports no renewals to a clientv3.LeaseMonitor: use that of clientv3.NewLease")

// maxDoublings bounds how often [Config.RetryPeriod] doubles.
const maxDoublings = 3

// Run campaigns for the key of cfg, calls lead while it holds the key, and resigns when lead has
// returned. lead runs in the goroutine of the caller, and is not called twice at a time.
//
// The context of lead ends before another process can hold the key: [Config.Margin] before the
// lease may expire. [context.Cause] is then a [*TermEndedError]. Run waits for lead to return,
// whatever it returns, pauses for a random part of [Config.RetryPeriod], and campaigns again over
// a new lease; with [Config.ReturnOnLoss] it returns. It logs if lead has not returned when the
// lease may have expired. If the term is not lost, Run returns what lead returns.
//
// The context of lead also ends with ctx. The lease is kept alive until lead has returned, and
// [Term.KV] works until then. To resign at SIGTERM, use a context of [os/signal.NotifyContext].
// Run resigns by revoking its lease, within [Config.ResignTimeout]: the next candidate holds the
// key at once.
//
// If lead panics or calls [runtime.Goexit], Run resigns as well, and the panic goes on.
//
// The error is
//
//   - the error of lead, if the term was not lost or ctx has ended meanwhile;
//   - with ReturnOnLoss a [*TermEndedError], joined with the error of lead;
//   - that of ctx, if it ended while lead did not run;
//   - what is wrong with cfg, or that lead is nil;
//   - an error of the server or the client that would recur: access is denied, or the client is
//     closed.
//
// Run logs other failures and campaigns again.
func Run(ctx context.Context, client *clientv3.Client, cfg Config, lead func(ctx context.Context, term *Term) error) error {
	cfg, err := cfg.complete()
	if err == nil && lead == nil {
		err = errors.New("leaderelection: Run needs a function that leads")
	}
	if err != nil {
		return err
	}
	r := &runner{client: client, cfg: cfg, lead: lead, lg: client.GetLogger().With(zap.String("name", cfg.Name))}
	defer client.AddToReport(r.report)()
	defer r.observers.Wait()
	r.observing, r.endObserving = context.WithCancel(ctx)
	defer r.endObserving()
	for failures := 0; ; failures++ {
		led, again, err := r.candidacy(ctx)
		if !again {
			return err
		}
		if led {
			failures = 0
		}
		wait := rand.N(cfg.RetryPeriod << min(failures, maxDoublings))
		r.lg.Warn("campaigns again after a pause", zap.Duration("pause", wait), zap.Error(err))
		if err := pause.For(ctx, wait); err != nil {
			return err
		}
	}
}

// runner is one call of Run.
type runner struct {
	client *clientv3.Client
	cfg    Config
	lead   func(context.Context, *Term) error
	lg     *zap.Logger
	term   atomic.Pointer[Term] // the present one, nil if there is none

	left         []clientv3.LeaseID // of earlier candidacies, not known to be gone
	observers    sync.WaitGroup
	observing    context.Context
	endObserving context.CancelFunc
	observed     bool
}

// candidacy campaigns over a new lease, leads, and resigns. It reports whether it has led, and
// whether to campaign again.
func (r *runner) candidacy(ctx context.Context) (led, again bool, err error) {
	if err := r.revokeLeft(ctx); err != nil {
		return false, true, err
	}
	session, endSession, err := r.newSession(ctx)
	if err != nil {
		return false, r.transient(ctx, err), err
	}
	defer r.resign(ctx, session, endSession)
	r.observe(session)
	term, err := r.campaign(ctx, session, endSession)
	if err != nil {
		return false, r.transient(ctx, err), err
	}
	loss, err := r.serve(term)
	switch {
	case loss == nil || ctx.Err() != nil:
		return true, false, err
	case r.cfg.ReturnOnLoss:
		return true, false, errors.Join(loss, err)
	}
	return true, true, loss
}

// newSession grants a lease and keeps it alive until end is called: longer than ctx, so that a
// function that ends its work still holds the key.
func (r *runner) newSession(ctx context.Context) (s *concurrency.Session, end context.CancelCauseFunc, err error) {
	alive, end := context.WithCancelCause(context.WithoutCancel(ctx))
	s, err = concurrency.NewSession(r.client, concurrency.WithTTL(int(r.cfg.seconds())), concurrency.WithContext(grant.Within(ctx, alive)))
	if err != nil {
		end(nil)
	}
	return s, end, err
}

// campaign waits until the session holds the key. The end of ctx ends the session: then no
// request deletes the key, because resign does.
func (r *runner) campaign(ctx context.Context, s *concurrency.Session, endSession context.CancelCauseFunc) (*Term, error) {
	stop := context.AfterFunc(ctx, func() { endSession(concurrency.ErrSessionClosed) })
	held := concurrency.NewSemaphore(s, r.cfg.Name, r.cfg.Holders)
	err := held.Acquire(s.Ctx(), r.cfg.Value)
	switch {
	case !stop():
		return nil, ctx.Err()
	case err != nil && s.Err() != nil:
		return nil, s.Err()
	case err != nil:
		return nil, err
	case s.Deadline().IsZero():
		return nil, errNoDeadline
	}
	term := newTerm(ctx, s, held, r.cfg.Margin)
	return term, term.Err()
}

// serve calls the function, and returns why the term was lost before its return, and its error.
func (r *runner) serve(t *Term) (loss, err error) {
	var following sync.WaitGroup
	defer following.Wait()
	defer t.end(ErrReturned)
	defer close(t.returned)
	following.Go(t.followLease)
	following.Go(t.followKey)
	r.term.Store(t)
	defer r.term.Store(nil)
	r.cfg.Metrics.termBegan(t.since)
	following.Go(func() { r.followEnd(t) })

	fields := []zap.Field{zap.String("key", t.key), zap.Int64("revision", t.rev)}
	r.lg.Info("leads", fields...)
	if f := r.cfg.Hooks.StartedLeading; f != nil {
		f(t)
	}
	defer func() {
		loss = t.Err()
		r.lg.Info("leads no more", append(fields, zap.Duration("led", time.Since(t.since)), zap.NamedError("loss", loss), zap.Error(err))...)
		if f := r.cfg.Hooks.StoppedLeading; f != nil {
			f(t, loss)
		}
	}()
	return nil, r.lead(t.ctx, t)
}

// report adds the key to a report of the client.
func (r *runner) report(into *introspect.Client) {
	e := introspect.Election{Name: r.cfg.Name}
	if t := r.term.Load(); t != nil && t.Err() == nil {
		e.Leading, e.Key, e.Revision, e.LeadingSeconds = true, t.key, t.rev, time.Since(t.since).Seconds()
	}
	into.Elections = append(into.Elections, e)
}

// followEnd counts the end of the term, and logs if the function has not returned when another
// process may hold the key.
func (r *runner) followEnd(t *Term) {
	<-t.over.Done()
	r.cfg.Metrics.termEnded(!errors.Is(t.Err(), ErrReturned))
	select {
	case <-t.returned:
		return
	case <-time.After(r.cfg.Margin):
	}
	r.lg.Warn("the function has not returned since its term was lost, and another process may lead: only fenced writes are refused",
		zap.String("key", t.key), zap.Int64("revision", t.rev))
}

// resign ends the session and revokes its lease, which deletes the key and lets no late request
// put it.
func (r *runner) resign(ctx context.Context, s *concurrency.Session, endSession context.CancelCauseFunc) {
	gone := errors.Is(s.Err(), rpctypes.ErrLeaseNotFound)
	s.Orphan()
	endSession(nil)
	if gone {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.cfg.ResignTimeout)
	defer cancel()
	if _, err := r.client.Revoke(ctx, s.Lease()); err != nil && !errors.Is(err, rpctypes.ErrLeaseNotFound) {
		r.left = append(r.left, s.Lease())
		r.lg.Warn("cannot resign; the key is deleted when its lease expires", zap.Int64("lease-id", int64(s.Lease())), zap.Error(err))
	}
}

// revokeLeft revokes the leases that resign could not revoke, so that keys of earlier candidacies do not remain next to
// the key of the next one. A lease that must not be revoked expires.
func (r *runner) revokeLeft(ctx context.Context) error {
	for ; len(r.left) > 0; r.left = r.left[1:] {
		_, err := r.client.Revoke(ctx, r.left[0])
		if err != nil && !errors.Is(err, rpctypes.ErrLeaseNotFound) && r.transient(ctx, err) {
			return err
		}
	}
	return nil
}

// transient reports whether another candidacy may succeed after err.
func (r *runner) transient(ctx context.Context, err error) bool {
	if ctx.Err() != nil || r.client.Ctx().Err() != nil || errors.Is(err, errNoDeadline) {
		return false
	}
	switch retry.CodeOf(err) {
	case codes.PermissionDenied, codes.Unauthenticated, codes.InvalidArgument, codes.Unimplemented:
		return false
	default:
		return true
	}
}

// observe reports leaders to the hook, from the first session on.
func (r *runner) observe(s *concurrency.Session) {
	hook := r.cfg.Hooks.NewLeader
	if hook == nil || r.observed {
		return
	}
	r.observed = true
	leaders := concurrency.NewElection(s, r.cfg.Name).Observe(r.observing)
	r.observers.Go(func() {
		for resp := range leaders {
			kv := resp.Kvs[0]
			hook(Leader{Value: string(kv.Value), Key: string(kv.Key), Revision: kv.CreateRevision, Since: time.Now()})
		}
	})
}

// Metrics has the metrics of a Run that has it in its [Config], for observe/prometheus, observe/otel and other
// metrics libraries. The zero value is ready to use; a Metrics serves one Run at a time. It is safe for concurrent use.
type Metrics struct {
	mu            sync.Mutex
	since         time.Time // zero while no term lasts
	terms, losses int64
}

var _ observe.MetricSource = (*Metrics)(nil)

// Metrics returns whether a term lasts, for how long, and how many there were.
func (m *Metrics) Metrics() []observe.Metric {
	m.mu.Lock()
	defer m.mu.Unlock()
	var leading, age float64
	if !m.since.IsZero() {
		leading, age = 1, time.Since(m.since).Seconds()
	}
	return []observe.Metric{
		observe.Gauge("quorate.leaderelection.leading", "{term}", "1 while a term lasts, 0 otherwise.", leading),
		observe.Gauge("quorate.leaderelection.age", "s", "How long the present term has lasted, 0 without one.", age),
		observe.Counter("quorate.leaderelection.terms", "{term}", "Terms that have begun.", float64(m.terms)),
		observe.Counter("quorate.leaderelection.losses", "{term}", "Terms that were lost before the function returned.", float64(m.losses)),
	}
}

func (m *Metrics) termBegan(since time.Time) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.since = since
	m.terms++
}

func (m *Metrics) termEnded(lost bool) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.since = time.Time{}
	if lost {
		m.losses++
	}
}
