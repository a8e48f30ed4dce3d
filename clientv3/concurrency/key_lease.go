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
	k     *KeptKey
	lease clientv3.LeaseID
	rev   int64 // up to which the state of the key is known

	missing bool // the key was missing, which was not reported yet

	ctx     context.Context // ends with the lease; its cause is the reason
	end     context.CancelCauseFunc
	kept    chan struct{} // closed when the lease is no longer kept alive
	monitor clientv3.LeaseMonitor
}

// open grants a lease and keeps it alive. ctx bounds the grant of the lease.
func (k *KeptKey) open(ctx context.Context) (*keyLease, error) {
	granted, err := k.client.Grant(ctx, k.seconds())
	if err != nil {
		return nil, err
	}
	t := &keyLease{k: k, lease: granted.ID, kept: make(chan struct{})}
	t.ctx, t.end = context.WithCancelCause(k.ctx)
	k.leases = append(k.leases, t.lease)
	alive, err := k.client.KeepAlive(clientv3.WithLeaseMonitor(t.ctx, &t.monitor), t.lease)
	if err != nil {
		t.end(err)
		return nil, err
	}
	go func() {
		defer close(t.kept)
		t.end(keepAliveEnd(alive, &t.monitor))
	}()
	return t, nil
}

// close stops keeping the lease alive.
func (t *keyLease) close() {
	t.end(context.Canceled)
	<-t.kept
}

// overwriteKey writes the key, even if another client owns it.
func (t *keyLease) overwriteKey(ctx context.Context) error {
	value, version := t.k.desired()
	_, err := t.k.client.Put(ctx, t.k.key, value, clientv3.WithLease(t.lease))
	if err == nil {
		t.k.wrote(version)
	}
	return err
}

// serve keeps the key, or waits for it, until the lease is lost, and returns the reason.
func (t *keyLease) serve() error {
	defer t.close()
	var delay pause.Backoff
	for {
		began := time.Now()
		err := t.hold()
		switch {
		case t.ctx.Err() != nil:
			return context.Cause(t.ctx)
		case t.k.client.Ctx().Err() != nil:
			<-t.ctx.Done() // which ends with the client's
			return context.Cause(t.ctx)
		case errors.Is(err, rpctypes.ErrLeaseNotFound):
			return err
		case err != nil:
			t.reportFailure(err)
			delay.Wait(t.ctx, time.Since(began))
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
	state, err := t.ensureKey(t.ctx)
	if err != nil {
		return err
	}
	if t.missing && t.k.State().State == KeyHeld {
		t.k.notify(KeyEvent{State: KeyLost, Lease: t.lease, Err: ErrKeyDeleted})
	}
	t.missing = false
	t.k.notify(KeyEvent{State: state, Lease: t.lease})
	return t.watch()
}

// ensureKey writes the key and its value, unless another client owns the key.
func (t *keyLease) ensureKey(ctx context.Context) (KeyState, error) {
	for ctx.Err() == nil && t.ctx.Err() == nil {
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
				t.k.leases = []clientv3.LeaseID{t.lease}
				return KeySuperseded, nil
			}
			if owner == t.lease && string(kv.Value) == value {
				t.k.wrote(version)
				return KeyHeld, nil
			}
		}
		put, err := t.k.client.Txn(ctx).
			If(clientv3.Compare(clientv3.ModRevision(t.k.key), "=", modified)).
			Then(clientv3.OpPut(t.k.key, value, clientv3.WithLease(t.lease))).
			Commit()
		if err != nil {
			return 0, err
		}
		if put.Succeeded {
			t.rev = put.Header.Revision
			t.k.leases = []clientv3.LeaseID{t.lease} // no other lease has the key attached
			t.k.wrote(version)
			return KeyHeld, nil
		}
	}
	return 0, cmp.Or(ctx.Err(), context.Cause(t.ctx))
}

// watch returns nil when the key has changed, or an update is to be written.
func (t *keyLease) watch() error {
	ctx, cancel := context.WithCancel(t.ctx)
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
