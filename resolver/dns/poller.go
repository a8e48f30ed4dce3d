package dns

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/quorate/quorate/internal/pause"
)

// news is what channels are told.
type news struct {
	backends []backend
	listed   bool
	problem  *problem
}

// feed hands the latest news to all who want them.
type feed struct {
	mu      sync.Mutex
	latest  news
	changed chan struct{} // closed by what comes after latest
}

func newFeed(n news) *feed { return &feed{latest: n, changed: make(chan struct{})} }

// read returns the latest news, and what is closed when they are not the latest any more.
func (f *feed) read() (news, <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.latest, f.changed
}

func (f *feed) publish(n news) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if n.listed == f.latest.listed && n.problem == f.latest.problem && slices.EqualFunc(n.backends, f.latest.backends, backend.equal) {
		return
	}
	f.latest = n
	close(f.changed)
	f.changed = make(chan struct{})
}

// poller asks one question, again and again, for all channels that want the answer.
type poller struct {
	*feed
	cfg    Config
	q      question
	cancel context.CancelFunc
	asked  chan struct{} // somebody wants a lookup now

	users int // guarded by the registry

	// What follows belongs to the goroutine.
	record   record
	schedule schedule
	ended    time.Time // when the last lookup did

	resting sync.Mutex
	rest    *rest // what outlives the poller, nil unless the last answer was good
}

// rest is a good answer that needs no new lookup yet.
type rest struct {
	backends   []backend
	ended, due time.Time
}

// startPoller starts a poller with what was known, nil for nothing.
func startPoller(cfg Config, q question, known *rest) *poller {
	ctx, cancel := context.WithCancel(context.Background())
	p := &poller{
		cfg: cfg, q: q, cancel: cancel, asked: make(chan struct{}, 1),
		record:   record{enough: cfg.EmptyAnswers},
		schedule: schedule{interval: cfg.Interval, floor: cfg.MinInterval},
		rest:     known,
	}
	var first time.Duration
	if known != nil {
		p.record.backends, p.record.listed, p.ended = known.backends, true, known.ended
		first = time.Until(known.due)
	}
	p.feed = newFeed(p.news())
	go p.run(ctx, first)
	return p
}

func (p *poller) news() news {
	return news{p.record.backends, p.record.listed, p.record.problem}
}

// resolveNow asks for a lookup as soon as there may be one.
func (p *poller) resolveNow() {
	select {
	case p.asked <- struct{}{}:
	default:
	}
}

// stop ends the poller, and returns its answer if that is still good.
func (p *poller) stop() *rest {
	p.cancel()
	p.resting.Lock()
	defer p.resting.Unlock()
	return p.rest
}

func (p *poller) run(ctx context.Context, wait time.Duration) {
	for p.pause(ctx, wait) {
		select {
		case <-p.asked: // this lookup is the answer to it
		default:
		}
		wait = p.poll(ctx)
		p.ended = time.Now()
		if ctx.Err() == nil {
			p.remember(wait)
		}
	}
}

// pause waits for the next lookup: for d, or until somebody wants it, but not sooner than
// MinInterval after the last. It returns false if the poller was stopped.
func (p *poller) pause(ctx context.Context, d time.Duration) bool {
	due := time.NewTimer(d)
	defer due.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-due.C:
		return ctx.Err() == nil
	case <-p.asked:
	}
	return pause.For(ctx, time.Until(p.ended.Add(p.cfg.MinInterval))) == nil
}

// poll looks up, tells the channels, and returns when the next lookup is due.
func (p *poller) poll(ctx context.Context) time.Duration {
	before := p.record
	found, err := p.cfg.ask(ctx, p.q, before.backends)
	if ctx.Err() != nil {
		return 0
	}
	wait := p.schedule.afterAnswer(unknownTTL)
	switch {
	case err == nil:
		if p.record.answered(found, fmt.Sprintf("looking up the %v addresses of %q failed", found.lacks, p.q.name)) {
			wait = p.schedule.afterAnswer(found.ttl)
		}
		if !before.listed {
			wait = p.schedule.first(wait)
		}
	case isNone(err):
		p.record.empty(explain(p.q, p.cfg.Timeout, err))
	default:
		p.record.failure(explain(p.q, p.cfg.Timeout, err))
		wait = p.schedule.afterFailure(p.record.failed)
	}
	p.log(before)
	p.publish(p.news())
	return wait
}

// log says that trouble begins, that backends are given up, and that trouble ends.
func (p *poller) log(before record) {
	now := &p.record
	switch {
	case now.problem != nil && before.problem == nil, len(now.backends) == 0 && len(before.backends) > 0:
		logger.Warning(now.problem)
	case now.problem == nil && before.problem != nil:
		logger.Infof("dns: %q is looked up again, with %d backends", p.q.name, len(now.backends))
	}
}

func (p *poller) remember(wait time.Duration) {
	p.resting.Lock()
	defer p.resting.Unlock()
	p.rest = nil
	if p.record.problem == nil {
		p.rest = &rest{p.record.backends, p.ended, p.ended.Add(wait)}
	}
}
