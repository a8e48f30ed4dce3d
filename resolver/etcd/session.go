package etcd

import (
	"context"
	"errors"
	"slices"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/internal/registry"
)

var (
	errKeepAliveEnded = errors.New("the lease is no longer kept alive")
	errWatchClosed    = errors.New("the watch of the key was closed")
)

// session is the lifetime of one lease, in which the registrar owns the key or waits for it.
type session struct {
	r     *Registrar
	lease clientv3.LeaseID
	rev   int64 // up to which the state of the key is known

	missing bool // the key was missing, which was not reported yet

	ctx     context.Context // ends with the lease; its cause is the reason
	end     context.CancelCauseFunc
	kept    chan struct{} // closed when the lease is no longer kept alive
	monitor clientv3.LeaseMonitor
}

// open begins a session. ctx bounds the grant of the lease.
func (r *Registrar) open(ctx context.Context) (*session, error) {
	granted, err := r.client.Grant(ctx, r.reg.seconds())
	if err != nil {
		return nil, err
	}
	t := &session{r: r, lease: granted.ID, kept: make(chan struct{})}
	t.ctx, t.end = context.WithCancelCause(r.ctx)
	r.leases = append(r.leases, t.lease)
	alive, err := r.client.KeepAlive(clientv3.WithLeaseMonitor(t.ctx, &t.monitor), t.lease)
	if err != nil {
		t.end(err)
		return nil, err
	}
	go t.watchKeepAlive(alive)
	return t, nil
}

// watchKeepAlive ends the session when its lease is no longer kept alive.
func (t *session) watchKeepAlive(alive <-chan *clientv3.LeaseKeepAliveResponse) {
	defer close(t.kept)
	for range alive { // wait until the channel is closed
	}
	cause := t.monitor.Err()
	if cause == nil {
		cause = errKeepAliveEnded
	}
	t.end(cause)
}

// close stops keeping the lease alive.
func (t *session) close() {
	t.end(context.Canceled)
	<-t.kept
}

// overwriteKey writes the endpoint to etcd, even if another registration owns the key.
func (t *session) overwriteKey(ctx context.Context) error {
	value, version := t.r.desired()
	_, err := t.r.client.Put(ctx, t.r.key, value, clientv3.WithLease(t.lease))
	if err == nil {
		t.r.wrote(version)
	}
	return err
}

// serve keeps the key, or waits for it, until the lease is lost, and returns the reason.
func (t *session) serve() error {
	defer t.close()
	var delay registry.Backoff
	for {
		began := time.Now()
		err := t.holdKey()
		switch {
		case t.ctx.Err() != nil:
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
func (t *session) reportFailure(err error) {
	e := t.r.State()
	if e.Err = err; t.missing {
		e.State = Lost
	}
	t.r.notify(e)
}

// holdKey returns nil when the key has changed, or an update is to be written.
func (t *session) holdKey() error {
	owned, err := t.ensureKey()
	if err != nil {
		return err
	}
	if t.missing && t.r.State().State == Registered {
		t.r.notify(Event{State: Lost, Lease: t.lease, Err: ErrDeleted})
	}
	t.missing = false
	state := Superseded
	if owned {
		state = Registered
	}
	t.r.notify(Event{State: state, Lease: t.lease})
	return t.watch()
}

// ensureKey writes the key and its value, unless another registration owns the key.
func (t *session) ensureKey() (owned bool, err error) {
	for t.ctx.Err() == nil {
		resp, err := t.r.client.Get(t.ctx, t.r.key)
		if err != nil {
			return false, err
		}
		t.rev = resp.Header.Revision
		value, version := t.r.desired()
		var modified int64
		t.missing = t.missing || len(resp.Kvs) == 0
		if len(resp.Kvs) > 0 {
			kv := resp.Kvs[0]
			modified = kv.ModRevision
			owner := clientv3.LeaseID(kv.Lease)
			if !slices.Contains(t.r.leases, owner) {
				t.r.leases = []clientv3.LeaseID{t.lease}
				return false, nil
			}
			if owner == t.lease && string(kv.Value) == value {
				t.r.wrote(version)
				return true, nil
			}
		}
		put, err := t.r.client.Txn(t.ctx).
			If(clientv3.Compare(clientv3.ModRevision(t.r.key), "=", modified)).
			Then(clientv3.OpPut(t.r.key, value, clientv3.WithLease(t.lease))).
			Commit()
		if err != nil {
			return false, err
		}
		if put.Succeeded {
			t.rev = put.Header.Revision
			t.r.leases = []clientv3.LeaseID{t.lease} // no other lease has the key attached
			t.r.wrote(version)
			return true, nil
		}
	}
	return false, context.Cause(t.ctx)
}

// watch returns nil when the key has changed, or an update is to be written.
func (t *session) watch() error {
	ctx, cancel := context.WithCancel(t.ctx)
	defer cancel()
	changes := t.r.client.Watch(ctx, t.r.key, clientv3.WithRev(t.rev+1))
	select {
	case <-t.r.updates:
		return nil
	case resp, ok := <-changes:
		if !ok {
			return errWatchClosed
		}
		if err := resp.Err(); err != nil {
			return err
		}
		return nil
	}
}
