package etcd

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"google.golang.org/grpc/grpclog"
	gresolver "google.golang.org/grpc/resolver"
)

var logger = grpclog.Component("quorate-etcd")

// errNone is the reason for which calls of a channel without endpoints fail.
var errNone = errors.New("no endpoint is registered")

// How often a list is published again that the channel did not accept, because of its service
// config for instance.
const (
	firstRetry = 100 * time.Millisecond
	maxRetry   = 10 * time.Second
)

// publisher tells one channel what is registered, and whether that is up to date.
type publisher struct {
	service string
	cc      gresolver.ClientConn

	mu        sync.Mutex // held while the channel is told something
	closed    bool
	known     bool // endpoints were published
	endpoints []gresolver.Endpoint
	lostAt    time.Time   // since when etcd is out of touch, the zero time while it is not
	retry     *time.Timer // publishes again
	delay     time.Duration
}

// publish tells the channel of all endpoints, unless it knows them; and, if there are none,
// why its calls will fail.
func (p *publisher) publish(endpoints []gresolver.Endpoint) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || p.known && equal(p.endpoints, endpoints) {
		return
	}
	p.known, p.endpoints, p.delay = true, endpoints, 0
	p.update()
	if len(endpoints) == 0 {
		p.report(errNone)
	}
}

// update needs the lock.
func (p *publisher) update() {
	if p.retry != nil {
		p.retry.Stop()
		p.retry = nil
	}
	err := p.cc.UpdateState(gresolver.State{Endpoints: p.endpoints})
	if err == nil || len(p.endpoints) == 0 {
		return // that an empty list is refused is what policies do with one
	}
	p.delay = min(max(2*p.delay, firstRetry), maxRetry)
	var retry *time.Timer
	retry = time.AfterFunc(p.delay, func() {
		p.mu.Lock() // which also waits until retry is set
		defer p.mu.Unlock()
		if p.retry == retry {
			p.update()
		}
	})
	p.retry = retry
}

// lost tells the channel that the endpoints it has may be out of date, and why.
func (p *publisher) lost(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return
	}
	if n := len(p.endpoints); n > 0 {
		err = fmt.Errorf("%w; the last list, of %d, stays in use", err, n)
	}
	if p.lostAt.IsZero() {
		p.lostAt = time.Now()
		logger.Warningf("service %q: %v", p.service, err)
	}
	p.report(err)
}

// regained is called after lost.
func (p *publisher) regained() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return
	}
	logger.Infof("service %q: in touch with etcd again after %v", p.service, time.Since(p.lostAt).Round(time.Millisecond))
	p.lostAt = time.Time{}
	if p.known && len(p.endpoints) == 0 {
		p.report(errNone)
	}
}

// report shows an error to calls while there are no endpoints: they fail with it and
// codes.Unavailable, or wait if they wait for ready. With an error that has a code of its own
// the latter would fail too. It needs the lock.
func (p *publisher) report(err error) {
	p.cc.ReportError(fmt.Errorf("etcd: service %q: %s", p.service, err.Error()))
}

// close returns when the channel will not be told anything any more.
func (p *publisher) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	if p.retry != nil {
		p.retry.Stop()
		p.retry = nil
	}
}
