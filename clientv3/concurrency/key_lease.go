package concurrency

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/internal/pause"
)

// keyLease is the lifetime of one lease, in which a KeptKey owns its key or waits for it.
type keyLease struct {
	k       *KeptKey
	session *Session
	rev     int64 // up to which the state of the key is known
	missing bool  // the key was missing, which was not reported yet
}

// open grants a lease and keeps it alive. ctx bounds the grant of the lease.
func (k *KeptKey) open(ctx context.Context) (*keyLease, error) {
	s, err := openSession(ctx, k.client, sessionOptions{ttl: k.seconds(), ctx: k.ctx})
	if err != nil {
		return nil, err
	}
	k.leases = append(k.leases, s.id)
	return &keyLease{k: k, session: s}, nil
}

// overwriteKey writes the key, even if another client owns it.
func (t *keyLease) overwriteKey(ctx context.Context) error {
	value, version := t.k.desired()
	_, err := t.k.client.Put(ctx, t.k.key, value, clientv3.WithLease(t.session.id))
	if err == nil {
		t.k.wrote(version)
	}
	return err
}

// serve keeps the key, or waits for it, until the lease is lost, and returns the reason.
func (t *keyLease) serve() error {
	defer t.session.Orphan()
	var delay pause.Backoff
	for {
		began := time.Now()
		err := t.hold()
		switch {
		case t.session.ctx.Err() != nil:
			return context.Cause(t.session.ctx)
		case t.k.client.Ctx().Err() != nil:
			<-t.session.ctx.Done() // which ends with the client's
			return context.Cause(t.session.ctx)
		case errors.Is(err, rpctypes.ErrLeaseNotFound):
			return err
		case err != nil:
			t.reportFailure(err)
			delay.Wait(t.session.ctx, time.Since(began))
		}
	}
}

// reportFailure reports why the key cannot be read or written.
func (t *keyLease) reportFailure(err error) {
	e := t.k.State()
	if e.Err = err; t.missing {
		e.State = KeyLost
	}
	t.k.notify(e)
}

// hold returns nil when the key has changed, or an update is to be written.
func (t *keyLease) hold() error {
	state, err := t.ensureKey(t.session.ctx)
	if err != nil {
		return err
	}
	if t.missing && t.k.State().State == KeyHeld {
		t.k.notify(KeyEvent{State: KeyLost, Lease: t.session.id, Err: ErrKeyDeleted})
	}
	t.missing = false
	t.k.notify(KeyEvent{State: state, Lease: t.session.id})
	return t.watch()
}

// ensureKey writes the key and its value, unless another client owns the key.
func (t *keyLease) ensureKey(ctx context.Context) (KeyState, error) {
	for ctx.Err() == nil && t.session.ctx.Err() == nil {
		resp, err := t.k.client.Get(ctx, t.k.key)
		if err != nil {
			return 0, err
		}
		t.rev = resp.Header.Revision
		value, version := t.k.desired()
		var modified int64
		t.missing = t.missing || len(resp.Kvs) == 0
		if len(resp.Kvs) > 0 {
			kv := resp.Kvs[0]
			modified = kv.ModRevision
			owner := clientv3.LeaseID(kv.Lease)
			if !slices.Contains(t.k.leases, owner) {
				t.k.leases = []clientv3.LeaseID{t.session.id}
				return KeySuperseded, nil
			}
			if owner == t.session.id && string(kv.Value) == value {
				t.k.wrote(version)
				return KeyHeld, nil
			}
		}
		put, err := t.k.client.Txn(ctx).
			If(clientv3.Compare(clientv3.ModRevision(t.k.key), "=", modified)).
			Then(clientv3.OpPut(t.k.key, value, clientv3.WithLease(t.session.id))).
			Commit()
		if err != nil {
			return 0, err
		}
		if put.Succeeded {
			t.rev = put.Header.Revision
			t.k.leases = []clientv3.LeaseID{t.session.id} // no other lease has the key attached
			t.k.wrote(version)
			return KeyHeld, nil
		}
	}
	return 0, cmp.Or(ctx.Err(), context.Cause(t.session.ctx))
}

// watch returns nil when the key has changed, or an update is to be written.
func (t *keyLease) watch() error {
	ctx, cancel := context.WithCancel(t.session.ctx)
	defer cancel()
	changes := t.k.client.Watch(ctx, t.k.key, clientv3.WithRev(t.rev+1))
	for {
		select {
		case <-t.k.updates:
			return nil
		case resp, ok := <-changes:
			switch err := resp.Err(); {
			case !ok:
				return errWatchClosed
			case err != nil, len(resp.Events) > 0:
				return err
			}
		}
	}
}
