package idempotent

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/concurrency"
	"github.com/quorate/quorate/clientv3/internal/grant"
	"github.com/quorate/quorate/internal/pause"
	"github.com/quorate/quorate/retry"
)

// pool has the lanes of a writer, all under the lease of one session. After a session is lost, the next write
// opens another one.
type pool struct {
	client *clientv3.Client
	cfg    Config
	slots  chan struct{} // holds one for each lane in use
	closed chan struct{}
	closes sync.Once
	leases *atomic.Int64 // counts those that were made

	opening chan struct{} // holds one while a session is made

	mu      sync.Mutex
	session *session // nil if there is none
}

// session is a lease with its lanes.
type session struct {
	*concurrency.Session

	// Guarded by pool.mu.
	free  []*lane // the latest used last
	made  int
	inUse int
	ended bool // no further write uses it
}

// acquire returns a lane for one write, and its session. An error says that the write is not sent.
func (p *pool) acquire(ctx context.Context) (*session, *lane, error) {
	if err := p.take(ctx, p.slots); err != nil {
		return nil, nil, err
	}
	for {
		if s, l := p.lane(); l != nil {
			return s, l, nil
		}
		if err := p.open(ctx); err != nil {
			<-p.slots
			return nil, nil, err
		}
	}
}

// take occupies one of the slots of a channel.
func (p *pool) take(ctx context.Context, into chan<- struct{}) error {
	if pause.Closed(p.closed) {
		return errClosed
	}
	select {
	case into <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-p.closed:
		return errClosed
	}
}

// lane returns a lane of the present session, nil if there is no session.
func (p *pool) lane() (*session, *lane) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.session
	if s == nil || s.Ctx().Err() != nil {
		return nil, nil
	}
	s.inUse++
	if n := len(s.free); n > 0 {
		l := s.free[n-1]
		s.free = s.free[:n-1]
		return s, l
	}
	s.made++
	return s, &lane{key: fmt.Sprintf("%s%x/%d", p.cfg.Prefix, int64(s.Lease()), s.made)}
}

// open makes a session, unless there is one.
func (p *pool) open(ctx context.Context) error {
	if err := p.take(ctx, p.opening); err != nil {
		return err
	}
	defer func() { <-p.opening }()
	p.mu.Lock()
	was := p.session
	p.mu.Unlock()
	if was != nil {
		if was.Ctx().Err() == nil {
			return nil
		}
		p.end(was)
	}
	alive := concurrency.WithContext(grant.Within(ctx, p.client.Ctx()))
	inner, err := concurrency.NewSession(p.client, concurrency.WithTTL(int(p.cfg.TTL)), alive)
	if err != nil {
		return err
	}
	p.leases.Add(1)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.session = &session{Session: inner}
	return nil
}

// end makes writes use another session from now on.
func (p *pool) end(s *session) {
	p.mu.Lock()
	if p.session == s {
		p.session = nil
	}
	s.ended = true
	idle := s.inUse == 0
	p.mu.Unlock()
	if idle {
		s.Orphan() // the lease then expires
	}
}

// release returns a lane after a write.
func (p *pool) release(s *session, l *lane) {
	p.mu.Lock()
	s.inUse--
	if !l.ended {
		s.free = append(s.free, l)
	}
	idle := s.ended && s.inUse == 0
	p.mu.Unlock()
	if idle {
		s.Orphan()
	}
	<-p.slots
}

// close waits until no lane is in use, and ends the session. Without revoke its lease is left to expire.
func (p *pool) close(revoke bool) (err error) {
	p.closes.Do(func() {
		close(p.closed)
		for range cap(p.slots) {
			p.slots <- struct{}{}
		}
		p.mu.Lock()
		s := p.session
		p.session = nil
		p.mu.Unlock()
		for range cap(p.slots) {
			<-p.slots // no lane is in use any more
		}
		switch {
		case s == nil:
		case revoke:
			err = s.Close()
		default:
			s.Orphan()
		}
	})
	return err
}

// notSent returns the error of a write that is not sent.
func notSent(err error) error {
	if retry.OutcomeOf(err) == retry.OutcomeNotExecuted {
		return err
	}
	return &retry.NotSentError{Err: err}
}
