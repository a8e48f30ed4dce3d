package idempotent

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/concurrency"
	"github.com/quorate/quorate/clientv3/internal/grant"
	"github.com/quorate/quorate/internal/pause"
	"github.com/quorate/quorate/retry"
)

// A lane is a key that one writer writes. Each request compares the key's mod revision with the one that the writer
// last saw, the guard, and writes the key: of all requests with one guard a server executes one at most, whenever they
// arrive. A request whose guard does not hold reads the lane's record, which names the request that was executed.

// id names a request. Ids are random, so two writers that both consider a lane theirs use different ones.
type id uint64

// record is the value of a lane's key, with the revisions at which the key was created and last written.
type record struct {
	id id
	// branch says which branch of a caller's Txn was taken.
	branch  bool
	created int64
	at      int64
}

// step is the kind of request that is to be sent.
type step uint8

const (
	stepCreate   step = iota + 1 // creates the lane's key, if there is none
	stepWrite                    // executes the caller's operations, and writes their record
	stepWithdraw                 // writes only a record, so that the caller's operations can no longer be executed
	stepDrop                     // like stepWithdraw, but deletes the lane's key, which a full store accepts
)

// verdict says what is known of a write.
type verdict uint8

const (
	undecided   verdict = iota // the step is to be sent
	executed                   // at a revision
	notExecuted                // and it will not be
	elsewhere                  // like notExecuted; it can be sent in another lane
	unknown
	restored // the store has gone back to an earlier state
)

// result is what follows from an answer.
type result struct {
	verdict  verdict
	revision int64 // of the write, or of the earlier state
	// record is the record of the write if its response was lost, and nil otherwise.
	record *record
}

// maxOpen bounds the open ids that a lane remembers. A lane whose record has an older id is not used again.
const maxOpen = 32

// lane is the state of a lane: it says what to send next, and what an answer proves, without I/O or a clock. One write at a
// time uses it, from begin to a verdict.
type lane struct {
	key      string
	guard    int64 // the mod revision of the key, 0 before it is created
	created  int64 // the key's create revision
	creation id    // of the requests that create the key
	open     []id  // earlier requests with this guard whose outcome is unknown
	ended    bool  // the lane is not to be used again

	// Of the current write:
	step    step
	write   id
	removal id // of the requests that withdraw the write
	unsure  bool
}

// begin starts a write. The ids are new ones.
func (l *lane) begin(creation, write, removal id) {
	l.write, l.removal, l.unsure, l.step = write, removal, false, stepWrite
	if l.guard == 0 {
		l.step = stepCreate
		if l.creation == 0 {
			l.creation = creation
		}
	}
}

// id returns the id for the record of the current step.
func (l *lane) id() id {
	switch l.step {
	case stepCreate:
		return l.creation
	case stepWrite:
		return l.write
	default:
		return l.removal
	}
}

// held handles the answer that the guard held: the request was executed at this revision.
func (l *lane) held(revision int64) result {
	l.guard, l.open = revision, nil
	switch l.step {
	case stepCreate:
		l.created, l.step = revision, stepWrite
		return result{}
	case stepWrite:
		return result{verdict: executed, revision: revision}
	default:
		l.ended = l.step == stepDrop
		return result{verdict: notExecuted}
	}
}

// failedGuard handles the answer that the guard did not hold. r is the record of the lane, nil if its key does not exist.
// No request with this guard can be executed any more. unsure says that an earlier one may have been.
func (l *lane) failedGuard(r *record, unsure bool) result {
	l.unsure = l.unsure || unsure && l.step == stepWrite
	switch {
	case r == nil || r.created > l.created && l.step != stepCreate:
		// The key does not exist, or was created again by a late request: its lease has ended, or it was deleted.
		l.ended = true
		if l.unsure {
			return result{verdict: unknown}
		}
		return result{verdict: elsewhere}
	case r.at <= l.guard:
		l.ended = true
		return result{verdict: restored, revision: r.at}
	case r.id == l.write && l.step != stepCreate:
		l.guard, l.open = r.at, nil
		return result{verdict: executed, revision: r.at, record: r}
	case r.id == l.creation && l.guard == 0, r.id == l.removal && l.step != stepCreate, slices.Contains(l.open, r.id):
		// The record is from another request of this writer. The write was not executed, and no request with the guard so far will be.
		l.guard, l.created, l.open, l.unsure = r.at, r.created, nil, false
	default:
		// Another writer uses the lane, and has made this guard useless.
		l.ended = true
	}
	switch {
	case l.step == stepWithdraw || l.step == stepDrop:
		return result{verdict: notExecuted}
	case l.ended:
		return result{verdict: elsewhere}
	default:
		l.step = stepWrite
		return result{}
	}
}

// failed handles a request that ended with an error. unsure says that it may have been executed, or may yet be. If
// the result is undecided, the step is to be sent again after a pause.
func (l *lane) failed(class retry.Class, unsure bool) result {
	if l.step == stepWrite && unsure {
		l.unsure = true
	}
	switch class {
	case retry.Ended, retry.Closed:
		return l.leave()
	case retry.Executed:
		if l.step == stepCreate || l.step == stepDrop {
			return l.leave()
		}
		l.unsure, l.step = true, stepDrop
		return result{}
	case retry.Definite, retry.Token:
		if l.step != stepWrite || !l.unsure {
			return l.leave()
		}
		l.step = stepWithdraw
		return result{}
	case retry.Ambiguous:
		return result{}
	default: // a refusal that another member may not repeat
		if l.unsure {
			return result{}
		}
		return l.leave()
	}
}

// leave ends the current write as it stands. Its requests may still arrive: the next write of the lane finds out.
func (l *lane) leave() result {
	if !l.unsure {
		return result{verdict: notExecuted}
	}
	l.open = append(l.open, l.write)
	if l.step == stepWithdraw || l.step == stepDrop {
		l.open = append(l.open, l.removal)
	}
	l.ended = l.ended || l.step == stepDrop
	if n := len(l.open); n > maxOpen {
		l.open = slices.Delete(l.open, 0, n-maxOpen)
	}
	return result{verdict: unknown}
}

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
