package dns

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/quorate/quorate/internal/feed"
	"github.com/quorate/quorate/internal/lastgood"
	"github.com/quorate/quorate/internal/pause"
)

// staleAfter is how long channels that open or leave idle mode wait for an answer before they
// receive the last list of the name.
const staleAfter = 300 * time.Millisecond

// registry has a poller for each question of the channels.
type registry = lastgood.Registry[question, *poller, state]

func newRegistry(c *client) *registry {
	return lastgood.NewRegistry(c.MaxListAge, func(q question, last state, ok bool) *poller {
		if !ok {
			last = state{record: newRecord(c.Config)}
		}
		return startPoller(c, q, last)
	})
}

// state is the result of the lookups so far.
type state struct {
	record
	ended time.Time // when the last lookup ended
	due   time.Time // until when its answer is valid without another lookup
}

// poller repeats the lookup of one question for all channels that need it.
type poller struct {
	*feed.Feed
	client    *client
	q         question
	cancel    context.CancelFunc
	asked     chan struct{} // a lookup was requested
	requested bool          // the present lookup was; only run uses this and the next
	failing   bool          // the last lookup had no answer
	staleAt   time.Time     // when the last list is used although there is no answer

	mu       sync.Mutex
	state    state
	answered bool // the state is valid, or a lookup has ended, successful or not
	stopped  bool // the state is final
}

// startPoller starts a poller with the state of the last one. An answer that is no longer valid is
// used only if the first lookup takes long or fails.
func startPoller(c *client, q question, last state) *poller {
	ctx, cancel := context.WithCancel(context.Background())
	p := &poller{
		client: c, q: q, cancel: cancel, asked: make(chan struct{}, 1), state: last,
		staleAt: time.Now().Add(staleAfter),
	}
	p.Feed = feed.New(&p.mu, p.publishedLocked)
	wait := time.Until(last.due)
	if p.answered = wait > 0; !p.answered && len(last.backends) > 0 {
		p.state.guard.Outdate()
		p.state.problem = ""
		wait = time.Until(last.ended.Add(c.MinInterval))
	}
	go p.run(ctx, wait)
	return p
}

// publishedLocked returns the state of the channels.
func (p *poller) publishedLocked() feed.State {
	if !p.answered && len(p.state.backends) > 0 {
		if time.Now().Before(p.staleAt) {
			return feed.State{Due: p.staleAt}
		}
		before := p.state.record
		p.state.addProblem(fmt.Sprintf("no answer yet about the %s of %q", p.q.what(), p.q.name))
		p.log(before)
	}
	return feed.State{Endpoints: endpoints(p.state.backends), Problem: p.state.problem}
}

// resolveNow requests a lookup as soon as MinInterval allows one.
func (p *poller) resolveNow() { pause.Signal(p.asked) }

// Stop implements lastgood.Source.
func (p *poller) Stop() (last state, ok bool) {
	p.cancel()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stopped = true
	return p.state, len(p.state.backends) > 0
}

func (p *poller) run(ctx context.Context, wait time.Duration) {
	for p.pause(ctx, wait) {
		select {
		case <-p.asked: // this lookup is the answer to it
		default:
		}
		wait = p.poll(ctx)
	}
}

// pause waits for the next lookup: for d, or until a lookup is requested, but not sooner
// than MinInterval after the last, and not while lookups fail. It returns false if the poller was stopped.
func (p *poller) pause(ctx context.Context, d time.Duration) bool {
	asked := p.asked
	if p.failing {
		asked = nil // while lookups fail so do connections, each of which requests a lookup
	}
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		p.requested = false
		return ctx.Err() == nil
	case <-asked:
		p.requested = true
	}
	return pause.For(ctx, time.Until(p.state.ended.Add(p.client.MinInterval))) == nil
}

// poll looks up, and returns the time until the next lookup.
func (p *poller) poll(ctx context.Context) time.Duration {
	found, err := p.client.ask(ctx, p.q, p.state.known)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stopped {
		return 0
	}
	now, before, r := time.Now(), p.state.record, &p.state.record
	p.failing = err != nil && !isNotFound(err)
	wait := p.client.afterAnswer(found.ttl)
	switch {
	case err == nil:
		r.answered(now, p.q, found)
		switch {
		case r.failed > 0: // the answer is incomplete
			wait = p.client.afterFailure(r.failed)
		case !before.listed || p.requested: // other clients look up at the same time
			wait = p.client.spread(wait)
		}
	case isNotFound(err):
		r.empty(now, explain(p.q, err), found.ttl)
	default:
		r.failure(now, explain(p.q, err))
		wait = p.client.afterFailure(r.failed)
	}
	if !r.confirm.IsZero() {
		wait = p.client.untilConfirmed(wait, r.confirm.Sub(now))
	}
	p.answered = true
	p.state.ended, p.state.due = now, time.Time{}
	if r.problem == "" {
		p.state.due = now.Add(wait)
	}
	p.log(before)
	p.ChangedLocked()
	return wait
}

// log says that trouble begins, that backends are given up, that trouble ends, and that answers
// turn out to be parts of a list.
func (p *poller) log(before record) {
	now := &p.state.record
	switch {
	case now.problem != "" && before.problem == "", len(now.backends) == 0 && len(before.backends) > 0:
		logger.Warning(now.problem)
	case now.problem == "" && before.problem != "":
		logger.Infof("dns: %q is looked up again, with %d backends", p.q.name, len(now.backends))
	}
	if now.rotating && !before.rotating {
		logger.Infof("dns: answers about %q name a part of the backends each; they are united over %v or more", p.q.name, p.client.RotationWindow)
	}
}

// record is the state of a question: a state machine without I/O.
type record struct {
	guard   lastgood.Guard[backend]
	known             // what the channels have
	listed  bool      // the backends are from DNS, even if there are none
	half    time.Time // since when lookups of one family fail
	failed  int       // failures in a row
	problem string    // "" if there is none
	// confirm is when to confirm an answer that is not trusted yet, zero if there is none.
	confirm  time.Time
	rotating bool // answers name parts of a larger list
}

func newRecord(cfg Config) record {
	return record{guard: lastgood.Guard[backend]{Key: backend.key, Delay: cfg.MassRemovalDelay, Window: cfg.RotationWindow}}
}

// key identifies what an answer lists: the target of an SRV record, or the preferred address of a backend.
func (b backend) key() string {
	if b.host != "" {
		return b.host + ":" + strconv.Itoa(int(b.port))
	}
	return b.addrs[0].String()
}

// answered takes an answer with backends. While one family cannot be looked up, it keeps the list as it is.
func (r *record) answered(now time.Time, q question, a answer) {
	r.failed, r.confirm = r.failed+1, time.Time{}
	if a.incomplete == "" {
		r.failed = 0
	}
	if r.half = r.since(now, a.missing); !r.half.IsZero() && now.Sub(r.half) < r.guard.Delay {
		r.addProblem(fmt.Sprintf("looking up the %v addresses of %q failed", a.missing, q.name))
		return
	}
	if a.moved && len(r.backends) > 0 {
		// A server that has just started, or a search domain with a wildcard, may answer this.
		text := fmt.Sprintf("%q is found as %q and no longer as %q", q.name, a.name, r.name)
		r.empty(now, text, a.ttl)
		if len(r.backends) > 0 {
			return
		}
	}
	r.take(now, a.backends, a.ttl)
	r.listed, r.name = true, a.name
	if r.problem = a.incomplete; r.confirm.IsZero() || r.problem != "" {
		return
	}
	r.addProblem(fmt.Sprintf("%d of %d backends of %q disappeared at once", len(r.backends)-len(a.backends), len(r.backends), q.name))
}

// since returns since when lookups of a family fail: never, if no address of the family is known.
func (r *record) since(now time.Time, lacks Family) time.Time {
	switch {
	case lacks == FamilyAuto || !r.has(lacks):
		return time.Time{}
	case r.half.IsZero():
		return now
	}
	return r.half
}

// empty takes an answer without backends; text says so.
func (r *record) empty(now time.Time, text string, ttl time.Duration) {
	r.failed = 0
	r.take(now, nil, ttl)
	r.listed = true
	r.addProblem(text)
}

// take publishes an answer and the backends that the guard keeps.
func (r *record) take(now time.Time, backends []backend, ttl time.Duration) {
	if ttl == unknownTTL {
		ttl = 0
	}
	kept := r.guard.Update(now, backends, ttl)
	r.backends = append(slices.Clone(backends), kept.Endpoints...)
	slices.SortFunc(r.backends, backend.compare)
	r.rotating = r.guard.Rotating(now)
	if r.confirm = (time.Time{}); kept.Mass {
		r.confirm = kept.Due
	}
}

// failure records a lookup that has failed.
func (r *record) failure(now time.Time, text string) {
	r.failed++
	r.guard.Suspend(now)
	r.confirm = time.Time{}
	r.addProblem(text)
}

// addProblem sets the problem, and says whether a list stays in use.
func (r *record) addProblem(text string) {
	if n := len(r.backends); n > 0 {
		text = fmt.Sprintf("%s (keeping the last good list, of %d)", text, n)
	}
	r.problem = "dns: " + text
}

// has reports whether an address of the family is known.
func (r *record) has(f Family) bool {
	return slices.ContainsFunc(r.backends, func(b backend) bool {
		return slices.ContainsFunc(b.addrs, func(a netip.Addr) bool { return familyOf(a) == f })
	})
}
