package concurrency

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/internal/pause"
	"github.com/quorate/quorate/retry"
)

var (
	// ErrKeyDeleted is the reason of KeyLost if the key was deleted while its lease is alive.
	ErrKeyDeleted = errors.New("the key was deleted by another client")

	// ErrKeySuperseded is returned by SetValue, wrapped, while another client has the key.
	ErrKeySuperseded = errors.New("another client has the key")

	// ErrKeyRemoved is returned by SetValue, wrapped, when the key is no longer kept.
	ErrKeyRemoved = errors.New("the key is no longer kept")

	// ErrClientClosed is returned by SetValue, wrapped, and the reason of the last KeyLost, when the client is closed.
	ErrClientClosed = errors.New("the etcd client was closed")
)

const (
	// defaultFirstTimeout is the default of KeyOptions.FirstTimeout: a cluster could renew leases and time
	// out writes for ever. If the cluster does not answer at all, the client gives up, too, with the reason.
	defaultFirstTimeout = 30 * time.Second

	// revokeTimeout bounds the revocation of unused leases, which expire anyway, and how long
	// Remove waits for Notify to return when its ctx has ended.
	revokeTimeout = time.Second

	// defaultKeyTTL is the default of KeyOptions.TTL.
	defaultKeyTTL = 15 * time.Second
)

// KeyState is the state of a [KeptKey].
type KeyState uint8

const (
	// KeyHeld keys are in etcd, with a lease that is kept alive.
	KeyHeld KeyState = iota + 1
	// KeyLost keys are not in etcd, or may soon expire. They are being put again.
	KeyLost
	// KeySuperseded keys are those of another client. They are put again if that one deletes them.
	KeySuperseded
	// KeyRemoved keys are no longer kept.
	KeyRemoved
)

// String returns "held", "lost", "superseded" or "removed".
func (s KeyState) String() string {
	names := map[KeyState]string{KeyHeld: "held", KeyLost: "lost", KeySuperseded: "superseded", KeyRemoved: "removed"}
	return cmp.Or(names[s], fmt.Sprintf("KeyState(%d)", s))
}

// KeyEvent reports a change of a key's state, or a new reason for the present state.
type KeyEvent struct {
	State KeyState
	// Again is set with KeyHeld if the key was lost or superseded before.
	Again bool
	// Lease is the present or last lease of the key.
	Lease clientv3.LeaseID
	// Err is why the key is lost: rpctypes.ErrLeaseNotFound if the server said that the lease does
	// not exist, clientv3.ErrLeaseUnanswered, wrapped, if it was not renewed in time,
	// [ErrKeyDeleted], an error of the attempt to put the key again, or, as the last event,
	// [ErrClientClosed].
	//
	// With KeyHeld and KeySuperseded it is why the key cannot be watched or updated, such as a missing
	// permission to read it: the state stays, and the key is checked again. With KeyRemoved it is
	// why the key may still be in etcd; it expires with its lease.
	Err error
}

// KeyOptions are the options of [KeepKey]. The zero value is usable.
type KeyOptions struct {
	// TTL is how long the key of a process that died stays, rounded up to whole seconds. The default
	// is 15 s, the least 1 s; etcd raises less than about 2 s to that.
	TTL time.Duration
	// Overwrite lets KeepKey put the key over that of another client, or of an earlier process, which
	// is then superseded. Otherwise KeepKey does not change a key that it has not put, and waits until
	// that is deleted.
	Overwrite bool
	// FirstTimeout bounds KeepKey, beside ctx, until it has put the key for the first time. The default is 30 s.
	FirstTimeout time.Duration
	// Notify, if set, is called for every change of state. It is called by one goroutine at a time,
	// which waits for it, so it must return soon. It must not call methods of the KeptKey other than State.
	Notify func(KeyEvent)
}

// KeptKey is a key that is kept in etcd under a lease. It is safe for concurrent use.
//
// If the lease is lost, because etcd was unreachable for longer than the TTL or the lease was
// revoked, or if the key is deleted, the key is put again: within 0.1 s, then with delays up to 10 s
// while etcd refuses it. While etcd is unreachable that is tried continuously. The client needs
// permission to write the key, and to read it in order to notice that it was deleted or overwritten.
//
// Of several clients the latest writer owns the key. The others are superseded: they do not touch
// it, and put it again if it is deleted.
//
// A KeptKey costs a lease with its renewals, three in a TTL over the stream that all leases of the client share, a watch of one key, and
// a read and a transaction for each time that the key is put.
type KeptKey struct {
	client *clientv3.Client
	opts   KeyOptions
	key    string
	outer  context.Context // KeepKey's
	ctx    context.Context // ends with outer, and by Remove
	cancel context.CancelFunc

	// The next fields belong to the goroutine that has sent to owned: KeepKey's until it ends, then one Remove
	// at a time.
	owned   chan struct{}      // capacity 1
	leases  []clientv3.LeaseID // they may have the key attached
	unsure  []clientv3.LeaseID // those of them whose request may still arrive, in the order of their grants
	session *Session           // of the present lease
	rev     int64              // up to which the state of the key is known
	missing bool               // the key was missing, which was not reported yet

	updates chan struct{} // capacity 1: the value is to be written

	mu      sync.Mutex
	value   string // to be written
	version int    // of the value, counted by SetValue
	written int    // the latest version seen in etcd
	event   KeyEvent
	before  bool          // it was lost or superseded
	changed chan struct{} // closed and replaced when written or event changes
}

// KeepKey puts a key and keeps it in etcd, with a new lease whenever that is lost, until ctx ends, the
// client is closed, or [KeptKey.Remove]. When ctx ends, the key is removed within a second if etcd answers,
// and otherwise expires with its lease; Remove waits for that.
//
// KeepKey returns when the key is written, or when another client has it: [KeptKey.State] tells
// which. [KeyOptions.FirstTimeout] and ctx bound that. The error says what is wrong with opts, or is the client's.
// The key is then not in etcd, or for at most the TTL.
func KeepKey(ctx context.Context, client *clientv3.Client, key, value string, opts KeyOptions) (*KeptKey, error) {
	opts.TTL = cmp.Or(opts.TTL, defaultKeyTTL)
	switch {
	case key == "":
		return nil, errors.New("KeepKey: the key is empty")
	case opts.TTL < time.Second:
		return nil, fmt.Errorf("KeepKey: KeyOptions.TTL is %v: leave it out for %v, or set at least 1 s", opts.TTL, defaultKeyTTL)
	case opts.FirstTimeout < 0:
		return nil, fmt.Errorf("KeepKey: KeyOptions.FirstTimeout is %v: leave it out for %v, or set a positive duration",
			opts.FirstTimeout, defaultFirstTimeout)
	}
	k := &KeptKey{
		client: client, opts: opts, key: key, outer: ctx, value: value,
		owned: make(chan struct{}, 1), updates: make(chan struct{}, 1), changed: make(chan struct{}),
	}
	k.ctx, k.cancel = context.WithCancel(ctx)
	stop := context.AfterFunc(client.Ctx(), k.cancel)
	k.owned <- struct{}{}
	if err := k.first(); err != nil {
		stop()
		k.cancel()
		return nil, err
	}
	go func() {
		defer stop()
		k.run()
	}()
	return k, nil
}

// State returns the latest event.
func (k *KeptKey) State() KeyEvent {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.event
}

// Key returns the key.
func (k *KeptKey) Key() string { return k.key }

// SetValue changes the value, and returns when it is in etcd.
//
// If ctx ends first, the error has the reason; the value is written as soon as possible, unless
// another one replaces it. The same holds for [ErrKeySuperseded].
func (k *KeptKey) SetValue(ctx context.Context, value string) error {
	return k.Update(ctx, func(string) (string, error) { return value, nil })
}

// Update is SetValue with what change makes of the value that was set last. Changes are made one after the
// other. change must not call methods of the KeptKey; if it returns an error, Update returns that, and nothing changes.
func (k *KeptKey) Update(ctx context.Context, change func(value string) (string, error)) error {
	version, err := k.set(change)
	if err != nil {
		return err
	}
	pause.Signal(k.updates)
	for {
		ended := ctx.Err() // checked first, so that the state is no older
		k.mu.Lock()
		written, event, changed := k.written, k.event, k.changed
		k.mu.Unlock()
		var err error
		switch {
		case written >= version:
			return nil
		case k.client.Ctx().Err() != nil:
			err = ErrClientClosed
		case k.ctx.Err() != nil:
			err = ErrKeyRemoved
		case event.State == KeySuperseded:
			err = ErrKeySuperseded
		case ended != nil:
			if event.Err != nil {
				ended = fmt.Errorf("%w (%w)", ended, event.Err)
			}
			return fmt.Errorf("%q is not updated yet: it is %v: %w", k.key, event.State, ended)
		}
		if err != nil {
			return fmt.Errorf("%q is not updated: %w", k.key, err)
		}
		select {
		case <-changed:
		case <-k.ctx.Done():
		case <-ctx.Done():
		}
	}
}

// set changes what is to be written, and returns its version.
func (k *KeptKey) set(change func(string) (string, error)) (int, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	value, err := change(k.value)
	if err != nil {
		return 0, err
	}
	k.value = value
	k.version++
	return k.version, nil
}

// Remove removes the key permanently. It revokes the lease, so it cannot delete the key of another
// client, and a late write cannot restore it. After an error it can be called again.
//
// An error means that etcd was unreachable until ctx ended: the key then expires with its lease,
// the TTL after the last renewal. If ctx has ended before the call, nothing is sent, and the lease
// is no longer renewed.
func (k *KeptKey) Remove(ctx context.Context) error {
	k.cancel()
	if err := k.own(ctx); err != nil {
		return k.notRemoved(err)
	}
	defer func() { <-k.owned }()
	err := k.revoke(ctx)
	k.notify(KeyRemoved, err)
	return err
}

// own waits until the leases have no owner, and takes them. A canceled goroutine releases them
// at once, unless Notify blocks; own waits for it even if ctx has ended.
func (k *KeptKey) own(ctx context.Context) error {
	select {
	case k.owned <- struct{}{}:
		return nil
	case <-ctx.Done():
	}
	select {
	case k.owned <- struct{}{}:
		return nil
	case <-time.After(revokeTimeout):
		return ctx.Err()
	}
}

// revoke ends all leases that may have the key attached.
func (k *KeptKey) revoke(ctx context.Context) error {
	for len(k.leases) > 0 {
		if _, err := k.client.Revoke(ctx, k.leases[0]); err != nil && !errors.Is(err, rpctypes.ErrLeaseNotFound) {
			return k.notRemoved(err)
		}
		k.leases = k.leases[1:]
	}
	return nil
}

func (k *KeptKey) notRemoved(err error) error {
	return fmt.Errorf("removing %q, which expires in %d s at most: %w", k.key, k.seconds(), err)
}

// seconds returns the TTL as a lease has it.
func (k *KeptKey) seconds() int64 { return int64((k.opts.TTL-1)/time.Second) + 1 }

// first puts the key for the first time. If the outcome of the write is unknown, it writes again under
// another lease and revokes the first one, so that a late write can neither replace the key of another client
// nor put it back after Remove.
func (k *KeptKey) first() error {
	ctx, cancel := context.WithTimeout(k.ctx, cmp.Or(k.opts.FirstTimeout, defaultFirstTimeout))
	defer cancel()
	var delay pause.Backoff
	for {
		began := time.Now()
		earlier := slices.Clone(k.leases) // ensureKey may forget some
		if err := k.open(ctx); err != nil {
			_ = k.discard(k.leases)
			return err
		}
		state, err := KeyHeld, error(nil)
		if k.opts.Overwrite {
			err = k.overwriteKey(ctx)
		} else {
			state, err = k.ensureKey(ctx)
		}
		if err == nil {
			k.unsure = k.discard(earlier)
			k.keepLeases()
			k.missing = false
			k.notify(state, nil)
			return nil
		}
		k.session.Orphan()
		if retry.OutcomeOf(err) != retry.OutcomeUnknown || ctx.Err() != nil {
			_ = k.discard(k.leases)
			return err
		}
		delay.Wait(ctx, time.Since(began))
	}
}

// overwriteKey writes the key, even if another client owns it.
func (k *KeptKey) overwriteKey(ctx context.Context) error {
	value, version := k.desired()
	_, err := k.client.Put(ctx, k.key, value, clientv3.WithLease(k.session.id))
	if err == nil {
		k.wrote(version)
	}
	return err
}

// discard revokes leases if that is possible soon, and returns the others, which expire.
func (k *KeptKey) discard(leases []clientv3.LeaseID) (left []clientv3.LeaseID) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(k.ctx), revokeTimeout)
	defer cancel()
	for _, lease := range leases {
		if _, err := k.client.Revoke(ctx, lease); err != nil {
			left = append(left, lease)
		}
	}
	return left
}

// run keeps the key, with a new lease whenever one is lost.
func (k *KeptKey) run() {
	defer func() { <-k.owned }()
	var delay pause.Backoff
	began := time.Now()
	for err := k.serve(); !k.over(); {
		k.notify(KeyLost, err)
		delay.Wait(k.ctx, time.Since(began))
		began = time.Now()
		if err = k.open(k.ctx); err == nil {
			err = k.serve()
		}
	}
	switch {
	case k.client.Ctx().Err() != nil:
		k.notify(KeyLost, ErrClientClosed)
	case k.outer.Err() != nil:
		ctx, cancel := context.WithTimeout(context.WithoutCancel(k.outer), revokeTimeout)
		defer cancel()
		k.notify(KeyRemoved, k.revoke(ctx))
	}
}

// over reports whether the key is no longer to be kept. ctx ends shortly after the client's.
func (k *KeptKey) over() bool { return k.ctx.Err() != nil || k.client.Ctx().Err() != nil }

// open makes the lease under which the key is kept from now on. ctx bounds the grant.
func (k *KeptKey) open(ctx context.Context) error {
	s, err := openSession(ctx, k.client, sessionOptions{ttl: k.seconds(), ctx: k.ctx})
	if err != nil {
		return err
	}
	k.session, k.leases = s, append(k.leases, s.id)
	return nil
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
			if retry.OutcomeOf(err) == retry.OutcomeUnknown {
				k.unsure = slices.Compact(append(k.unsure, k.session.id))
			}
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

// keepLeases forgets the earlier leases, but for those whose request may still arrive.
func (k *KeptKey) keepLeases() {
	k.leases = slices.Compact(append(slices.Clone(k.unsure), k.session.id))
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

// desired returns what is to be written.
func (k *KeptKey) desired() (value string, version int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.value, k.version
}

// wrote records that a version is in etcd.
func (k *KeptKey) wrote(version int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if version > k.written {
		k.written = version
		k.announceLocked()
	}
}

// notify stores an event and reports it if it differs from the last one.
func (k *KeptKey) notify(state KeyState, err error) {
	k.mu.Lock()
	e := KeyEvent{State: state, Lease: k.event.Lease, Err: err}
	if state == KeyHeld || state == KeySuperseded {
		e.Lease = k.session.id
	}
	known := e.State == k.event.State && fmt.Sprint(e.Err) == fmt.Sprint(k.event.Err)
	if !known {
		e.Again = e.State == KeyHeld && k.before
		k.before = k.before || e.State != KeyHeld
		k.event = e
		k.announceLocked()
	}
	k.mu.Unlock()
	if !known && k.opts.Notify != nil {
		k.opts.Notify(e)
	}
}

// announceLocked wakes the callers that wait for an update.
func (k *KeptKey) announceLocked() {
	close(k.changed)
	k.changed = make(chan struct{})
}
