package recipe

import (
	"context"
	"errors"
	"slices"

	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/concurrency"
	"github.com/quorate/quorate/clientv3/internal/optxn"
	"github.com/quorate/quorate/clientv3/internal/settle"
)

// Barrier makes processes wait while its key exists. It is safe for concurrent use.
type Barrier struct {
	client *clientv3.Client
	key    string
}

// NewBarrier returns the barrier with the given key. It does not put the key.
func NewBarrier(client *clientv3.Client, key string) *Barrier { return &Barrier{client, key} }

// Hold puts the key: from then on Wait blocks. If the barrier is already held the error
// is [ErrKeyExists]. The key has no lease and outlives the process.
func (b *Barrier) Hold() error { return createKey(b.client, b.key, "") }

// Release deletes the key, regardless of the process that put it, and so ends all
// waits.
func (b *Barrier) Release() error {
	_, err := b.client.Delete(b.client.Ctx(), b.key)
	return err
}

// Wait returns nil when the barrier is released, and at once if it is not held. Its
// state may have changed again when Wait returns.
func (b *Barrier) Wait() error {
	ctx := b.client.Ctx()
	resp, err := b.client.Get(ctx, b.key, clientv3.WithKeysOnly())
	if err != nil || len(resp.Kvs) == 0 {
		return err
	}
	return waitGone(ctx, b.client, resp.Kvs[0], resp.Header.Revision)
}

var (
	errEntered    = errors.New("recipe: this DoubleBarrier was entered: leave it first, or make another one for another participant")
	errNotEntered = errors.New("recipe: this DoubleBarrier was not entered")
)

// DoubleBarrier makes processes begin and end a computation together.
//
// A process that dies is removed when its session's lease expires. Before the barrier
// has opened, another process must enter in its place; afterwards the others do not wait
// for it in Leave.
//
// A DoubleBarrier is one participant. It is not safe for concurrent use.
type DoubleBarrier struct {
	session *concurrency.Session
	key     string
	count   int

	me *member // nil if not entered
	// ready is the revision at which the barrier opened. Participants that entered
	// together have older keys.
	ready int64
	// leaving says that Leave may have deleted the participant's key.
	leaving bool
}

// NewDoubleBarrier returns a participant, with session s, in the barrier for count
// participants. Their keys begin with key and a slash.
func NewDoubleBarrier(s *concurrency.Session, key string, count int) *DoubleBarrier {
	return &DoubleBarrier{session: s, key: key, count: count}
}

func (b *DoubleBarrier) waitersPrefix() string { return b.key + "/waiters" }

func (b *DoubleBarrier) readyKey() string { return b.key + "/ready" }

// Enter waits until all count participants have entered. The error is [ErrTooManyClients]
// if count participants have already entered; some of them may be about to leave.
func (b *DoubleBarrier) Enter() error {
	if b.me != nil {
		return errEntered
	}
	return whileSession(b.session, b.enter)
}

func (b *DoubleBarrier) enter(ctx context.Context) error {
	waiters, err := b.waiters(ctx)
	if err != nil {
		return err
	}
	if len(waiters.Kvs) >= b.count {
		return ErrTooManyClients
	}
	me, err := join(ctx, b.session, b.waitersPrefix())
	if err != nil {
		return err
	}
	ready, err := b.open(ctx, me)
	if err != nil {
		discard(b.session, me.key)
		return err
	}
	b.me, b.ready, b.leaving = me, ready, false
	return nil
}

// waiters gets the keys of all participants, oldest first.
func (b *DoubleBarrier) waiters(ctx context.Context, opts ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	opts = append(opts, clientv3.WithPrefix(), clientv3.WithKeysOnly(),
		clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortAscend))
	return b.session.Client().Get(ctx, b.waitersPrefix()+"/", opts...)
}

// open opens the barrier if this participant is the last one, and otherwise waits until
// another participant opens it. It returns the revision at which the barrier opened.
func (b *DoubleBarrier) open(ctx context.Context, me *member) (int64, error) {
	waiters, err := b.waiters(ctx)
	if err != nil {
		return 0, err
	}
	if len(waiters.Kvs) >= b.count {
		switch last := waiters.Kvs[b.count-1].CreateRevision; {
		case me.rev > last:
			return 0, ErrTooManyClients
		case me.rev == last:
			return b.announce(ctx, me)
		}
	}
	var ready *mvccpb.KeyValue
	if err := me.whilePresent(ctx, func(ctx context.Context) (err error) {
		// An opening from an earlier use is older than the participant's key.
		ready, err = waitChange(ctx, b.session.Client(), b.readyKey(), me.rev, clientv3.WithFilterDelete(), func(now *mvccpb.KeyValue) bool {
			return now.GetModRevision() > me.rev
		})
		return err
	}); err != nil {
		return 0, err
	}
	now, err := b.session.Client().Get(ctx, me.key, clientv3.WithKeysOnly())
	if err == nil && !me.found(now.Kvs) {
		err = lostKeyError(b.session, me.key) // it may not have been counted
	}
	return ready.GetModRevision(), err
}

// announce opens the barrier and returns the revision at which it opened.
func (b *DoubleBarrier) announce(ctx context.Context, me *member) (int64, error) {
	isShut := clientv3.Compare(clientv3.ModRevision(b.readyKey()), "<", me.rev)
	resp, _, err := settle.Commit(ctx, func() clientv3.Txn {
		return b.session.Client().Txn(ctx).If(me.exists(), isShut).
			Then(clientv3.OpPut(b.readyKey(), "")).
			Else(clientv3.OpGet(me.key, clientv3.WithKeysOnly()), clientv3.OpGet(b.readyKey()))
	})
	switch {
	case err != nil:
		return 0, err
	case resp.Succeeded:
		return resp.Header.Revision, nil
	case !me.found(optxn.At(resp, 0).GetResponseRange().GetKvs()):
		return 0, lostKeyError(b.session, me.key)
	}
	return optxn.Key(resp, 1).GetModRevision(), nil
}

// Leave waits until all participants that entered together have left or died. If this
// participant's key was already gone, the others consider it dead and may have left: Leave
// returns an error that says so, and the participant may enter again if its session lives.
// After other errors Leave may be called again.
//
// The oldest key stays until all others are gone: Leave deletes younger keys at once,
// and their owners wait for the oldest.
func (b *DoubleBarrier) Leave() error {
	if b.me == nil {
		return errNotEntered
	}
	if err := whileSession(b.session, b.leave); err != nil {
		return err
	}
	b.me = nil
	return nil
}

func (b *DoubleBarrier) leave(ctx context.Context) error {
	isMine := func(kv *mvccpb.KeyValue) bool { return kv.CreateRevision == b.me.rev }
	for {
		waiters, err := b.waiters(ctx, clientv3.WithMaxCreateRev(b.ready))
		if err != nil {
			return err
		}
		n := len(waiters.Kvs)
		if !b.leaving && !slices.ContainsFunc(waiters.Kvs, isMine) {
			err := lostKeyError(b.session, b.me.key)
			b.me = nil
			return err
		}
		if n == 0 {
			return nil
		}
		oldest, next := waiters.Kvs[0], waiters.Kvs[n-1]
		switch {
		case !isMine(oldest):
			b.leaving = true
			if err := b.me.delete(ctx); err != nil {
				return err
			}
			next = oldest
		case n == 1:
			return b.shut(ctx)
		}
		if err := waitGone(ctx, b.session.Client(), next, waiters.Header.Revision); err != nil {
			return err
		}
	}
}

// shut deletes the last participant's key, and the ready key unless the barrier has
// opened again.
func (b *DoubleBarrier) shut(ctx context.Context) error {
	b.leaving = true
	_, err := b.session.Client().Txn(ctx).
		If(clientv3.Compare(clientv3.ModRevision(b.readyKey()), "=", b.ready)).
		Then(clientv3.OpDelete(b.readyKey()), clientv3.OpDelete(b.me.key)).
		Else(clientv3.OpDelete(b.me.key)).
		Commit()
	return err
}
