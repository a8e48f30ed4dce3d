package concurrency

import (
	"cmp"
	"context"
	"errors"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/quorate/quorate/clientv3"
)

// errWatchClosed is returned when a watch ends without a reason, as when the Watcher is
// closed.
var errWatchClosed = errors.New("concurrency: the watch was closed")

// campaign tries to make the waiter's key the first: enter puts it with the value, wait returns when it is the first,
// and campaign returns the queue that wait returns. A failure restores the state before, if the cluster is reachable.
//
// The error is that of ctx if ctx has ended, and ErrSessionExpired if the session or the
// waiter's key was lost.
func (p *waiter) campaign(
	ctx context.Context, value string,
	enter func(context.Context, string) (queue, error), wait func(context.Context, queue) (queue, error),
) (won queue, err error) {
	s := p.session
	if s.lost() {
		return queue{}, p.reason(ctx, ErrSessionExpired)
	}
	bound, release := s.bind(ctx)
	defer release()
	had := p.rev
	if err := s.claims.enter(bound, p); err != nil {
		return queue{}, p.reason(ctx, err)
	}
	q, err := enter(bound, value)
	if p.uncertain {
		s.cleanupKey(p.key)
	}
	if err != nil && had != 0 { // unknown outcome: the waiter keeps the key
		p.rev = had
		s.claims.hold(p, had)
		return queue{}, p.reason(ctx, err)
	}
	if err == nil {
		won, err = wait(bound, q)
	}
	if err == nil && (s.lost() || p.rev == 0) {
		err = ErrSessionExpired
	}
	if err != nil {
		p.withdraw(ctx)
		return queue{}, p.reason(ctx, err)
	}
	s.claims.hold(p, p.rev)
	return won, nil
}

// reason returns the caller's error for err; ctx is the caller's context, which may be the
// session's, too.
func (p *waiter) reason(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case p.session.lost():
		return ErrSessionExpired
	case errors.Is(err, errWatchClosed):
		return cmp.Or(p.session.client.Ctx().Err(), err)
	default:
		return err
	}
}

// await returns when one read, at one revision, shows that the waiter's key is the
// first of the queue, or one of the first of a semaphore.
func (p *waiter) await(ctx context.Context, q queue) (queue, error) {
	if p.holders > 1 && q.ahead != nil {
		return p.awaitPlace(ctx)
	}
	for q.ahead != nil {
		if err := p.awaitDeletion(ctx, q); err != nil {
			return queue{}, err
		}
		var err error
		if q, err = p.readQueue(ctx); err != nil {
			return queue{}, err
		}
	}
	return q, nil
}

// awaitDeletion returns nil when the waiter's key or the one ahead may have been deleted
// since the queue was read. The next read shows what happened.
func (p *waiter) awaitDeletion(ctx context.Context, q queue) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	// Other keys of the queue are not watched: each deletion would wake all
	// waiters.
	since := []clientv3.OpOption{clientv3.WithRev(q.header.Revision + 1), clientv3.WithFilterPut()}
	own := p.session.client.Watch(ctx, p.key, since...)
	ahead := p.session.client.Watch(ctx, string(q.ahead.Key), since...)
	for {
		var resp clientv3.WatchResponse
		var open bool
		select {
		case resp, open = <-own:
		case resp, open = <-ahead:
		}
		err := resp.Err()
		switch {
		case !open && ctx.Err() != nil:
			return ctx.Err()
		case !open:
			return errWatchClosed
		case errors.Is(err, rpctypes.ErrCompacted):
			return pauseAfterCompaction(ctx) // the watch cannot continue, a read can
		case err != nil:
			return err
		case len(resp.Events) > 0:
			return nil
		}
	}
}

// withdraw removes the waiter, even if ctx has ended. It deletes the key if it exists, or
// if a request could have put it, unless another waiter of the session holds it. If the
// session is lost it deletes nothing: the lease expires by itself.
func (p *waiter) withdraw(ctx context.Context) {
	s := p.session
	rev, unsure := p.rev, p.uncertain
	p.rev, p.uncertain = 0, false
	defer s.claims.leave(p)
	if s.lost() || (rev == 0 && !unsure) {
		return
	}
	spared, end, begun := s.claims.remove(p.key, p)
	if !begun { // another waiter tries, and may fail without seeing the key
		s.cleanupKey(p.key)
		return
	}
	defer end()
	ctx, cancel := s.cleanupContext(ctx)
	defer cancel()
	if err := s.discard(ctx, p.key, rev, spared); err != nil {
		s.reportLeftover(p.key, err)
		s.cleanupKey(p.key)
	}
}

// release deletes the waiter's key and, on success, removes the waiter.
func (p *waiter) release(ctx context.Context, key string, rev int64) (*clientv3.TxnResponse, error) {
	end := func() {}
	if _, e, begun := p.session.claims.remove(p.key, p); begun {
		end = e
	}
	resp, err := p.session.remove(ctx, key, rev)
	end()
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil:
		return nil, err
	}
	p.abandon()
	return resp, nil
}

func (p *waiter) abandon() {
	p.rev = 0
	p.session.claims.leave(p)
}
