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

// open makes the lease under which the key is kept from now on. ctx bounds the grant.
func (k *KeptKey) open(ctx context.Context) error {
	s, err := openSession(ctx, k.client, sessionOptions{ttl: k.seconds(), ctx: k.ctx})
	if err != nil {
		return err
	}
	k.session, k.leases = s, append(k.leases, s.id)
	return nil
}

// keepLeases keeps the present lease, and those whose request may still arrive.
func (k *KeptKey) keepLeases() { k.leases = append(slices.Clone(k.unsure), k.session.id) }

// overwriteKey writes the key, even if another client owns it.
func (k *KeptKey) overwriteKey(ctx context.Context) error {
	value, version := k.desired()
	_, err := k.client.Put(ctx, k.key, value, clientv3.WithLease(k.session.id))
	if err == nil {
		k.wrote(version)
	}
	return err
}

// serve keeps the key, or waits for it, until the lease is lost, and returns the reason.
func (k *KeptKey) serve() error {
	s := k.session
	defer s.Orphan()
	var delay pause.Backoff
	for {
		began := time.Now()
		err := k.hold()
		switch {
		case s.ctx.Err() != nil, k.client.Ctx().Err() != nil:
			<-s.ctx.Done() // which ends with the client's
			return context.Cause(s.ctx)
		case errors.Is(err, rpctypes.ErrLeaseNotFound):
			return err
		case err != nil:
			state := k.State().State
			if k.missing {
				state = KeyLost
			}
			k.notify(state, err)
			delay.Wait(s.ctx, time.Since(began))
		}
	}
}

// hold returns nil when the key has changed, or an update is to be written.
func (k *KeptKey) hold() error {
	state, err := k.ensureKey(k.session.ctx)
	if err != nil {
		return err
	}
	if k.missing && k.State().State == KeyHeld {
		k.notify(KeyLost, ErrKeyDeleted)
	}
	k.missing = false
	k.notify(state, nil)
	return k.watch()
}

// ensureKey writes the key and its value, unless another client owns the key.
func (k *KeptKey) ensureKey(ctx context.Context) (KeyState, error) {
	for ctx.Err() == nil && k.session.ctx.Err() == nil {
		resp, err := k.client.Get(ctx, k.key)
		if err != nil {
			return 0, err
		}
		k.rev = resp.Header.Revision
		value, version := k.desired()
		var modified int64
		k.missing = k.missing || len(resp.Kvs) == 0
		if len(resp.Kvs) > 0 {
			kv := resp.Kvs[0]
			modified = kv.ModRevision
			owner := clientv3.LeaseID(kv.Lease)
			if !slices.Contains(k.leases, owner) {
				k.keepLeases()
				return KeySuperseded, nil
			}
			if owner == k.session.id && string(kv.Value) == value {
				k.wrote(version)
				return KeyHeld, nil
			}
		}
		put, err := k.client.Txn(ctx).
			If(clientv3.Compare(clientv3.ModRevision(k.key), "=", modified)).
			Then(clientv3.OpPut(k.key, value, clientv3.WithLease(k.session.id))).
			Commit()
		if err != nil {
			return 0, err
		}
		if put.Succeeded {
			k.rev = put.Header.Revision
			k.keepLeases()
			k.wrote(version)
			return KeyHeld, nil
		}
	}
	return 0, cmp.Or(ctx.Err(), context.Cause(k.session.ctx))
}

// watch returns nil when the key has changed, or an update is to be written.
func (k *KeptKey) watch() error {
	ctx, cancel := context.WithCancel(k.session.ctx)
	defer cancel()
	changes := k.client.Watch(ctx, k.key, clientv3.WithRev(k.rev+1))
	for {
		select {
		case <-k.updates:
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
