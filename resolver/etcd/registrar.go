package etcd

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/internal/registry"
	"github.com/quorate/quorate/retry"
)

var (
	// ErrDeleted is the reason of Lost if the key was deleted while its lease is alive.
	ErrDeleted = errors.New("the key was deleted by another client")

	// ErrSuperseded is returned by updates while another registration has the key.
	ErrSuperseded = errors.New("another registration has the key")

	// ErrWithdrawn is returned by updates after [Registrar.Withdraw].
	ErrWithdrawn = errors.New("the registration was withdrawn")
)

const (
	// registerTimeout bounds Register if its ctx does not: a cluster could be unreachable, or renew leases and time
	// out writes, for ever.
	registerTimeout = 30 * time.Second

	// cleanupTimeout bounds the revocation of unused leases, which expire anyway, and how long
	// Withdraw waits for Notify to return when its ctx has ended.
	cleanupTimeout = time.Second
)

// Registrar keeps one endpoint registered. It is safe for concurrent use.
//
// The key is attached to a lease. If the lease is lost, because etcd was unreachable for longer
// than the TTL or the lease was revoked, or if the key is deleted, the Registrar registers the
// endpoint again: within 0.1 s, then with delays up to 10 s while etcd refuses it. While etcd
// is unreachable it tries continuously. [Registration.Notify] and [Registrar.State] report the
// state. The client needs permission to write the key, and to read it in order to notice that
// it was deleted or overwritten.
//
// Of several registrations of one key the latest owns it. The others are Superseded: they
// do not touch the key, and register again if it is deleted.
type Registrar struct {
	client *clientv3.Client
	reg    Registration // as given to Register
	key    string
	ctx    context.Context // ends with the registration
	cancel context.CancelFunc

	// leases may have the key attached. They belong to the goroutine that has sent to owned:
	// Register's until it ends, then one Withdraw at a time.
	leases []clientv3.LeaseID
	owned  chan struct{} // capacity 1

	updates chan struct{} // capacity 1: the value is to be written

	mu      sync.Mutex
	updated Registration  // reg with all updates
	value   string        // to be written for updated
	version int           // of the value, counted by updates
	written int           // the latest version seen in etcd
	event   Event         // the latest
	before  bool          // it was lost or superseded
	changed chan struct{} // closed and replaced when written or event changes
}

// Register puts an endpoint into etcd and keeps it there until [Registrar.Withdraw], or until the
// client is closed. It returns when the key is written; ctx bounds only that. Without a deadline
// it fails after about 30 s.
//
// It replaces another registration of the same key: that of an earlier process, or of a running
// one, which becomes Superseded. [Registration.Notify] is called before Register returns.
//
// If a program closes the client without Withdraw, the endpoint stays in etcd for the TTL.
//
// The error names the invalid field, or is the client's error. The endpoint is then not in
// etcd, or for at most the TTL.
func Register(ctx context.Context, client *clientv3.Client, registration Registration) (*Registrar, error) {
	if err := checkClient(client); err != nil {
		return nil, err
	}
	if client.Lease == nil {
		return nil, errors.New("etcd: the client has no Lease service; give one that clientv3.New returned")
	}
	reg := registration.clone()
	if err := reg.validate(); err != nil {
		return nil, err
	}
	value, err := reg.value()
	if err != nil {
		return nil, err
	}
	r := &Registrar{
		client: client, reg: reg, key: reg.key(), updated: reg, value: value,
		owned: make(chan struct{}, 1), updates: make(chan struct{}, 1), changed: make(chan struct{}),
	}
	r.ctx, r.cancel = context.WithCancel(client.Ctx())
	r.owned <- struct{}{}
	t, err := r.first(ctx)
	if err != nil {
		r.cancel()
		return nil, fmt.Errorf("etcd: registering %q: %w", r.key, err)
	}
	go r.run(t)
	return r, nil
}

// first registers the endpoint for the first time and overwrites any other registration of the
// key. If the outcome of the write is unknown, it writes again under another lease and revokes the
// first one, so that a late write cannot replace a newer registration.
func (r *Registrar) first(ctx context.Context) (*session, error) {
	if _, bounded := ctx.Deadline(); !bounded {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, registerTimeout)
		defer cancel()
	}
	var delay registry.Backoff
	for {
		began := time.Now()
		t, err := r.open(ctx)
		if err != nil {
			r.discard(ctx, r.leases)
			return nil, err
		}
		if err = t.overwriteKey(ctx); err == nil {
			r.discard(ctx, r.leases[:len(r.leases)-1])
			r.notify(Event{State: Registered, Lease: t.lease})
			return t, nil
		}
		t.close()
		if retry.OutcomeOf(err) != retry.OutcomeUnknown || ctx.Err() != nil {
			r.discard(ctx, r.leases)
			return nil, err
		}
		delay.Wait(ctx, time.Since(began))
	}
}

// discard revokes leases if that is possible soon; otherwise they expire.
func (r *Registrar) discard(ctx context.Context, leases []clientv3.LeaseID) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
	defer cancel()
	for _, lease := range leases {
		_, _ = r.client.Revoke(ctx, lease) // Withdraw tries again
	}
}

// run keeps the endpoint registered, with a new lease whenever one is lost.
func (r *Registrar) run(t *session) {
	defer func() { <-r.owned }()
	var delay registry.Backoff
	for r.ctx.Err() == nil {
		began := time.Now()
		err := r.serve(t)
		t = nil
		if r.ctx.Err() == nil {
			r.notify(Event{State: Lost, Lease: r.State().Lease, Err: err})
			delay.Wait(r.ctx, time.Since(began))
		}
	}
	if r.client.Ctx().Err() != nil {
		r.notify(Event{State: Lost, Lease: r.State().Lease, Err: registry.ErrClientClosed})
	}
}

// serve keeps the endpoint registered in a session, or in a new one if t is nil, and returns why
// the session ended.
func (r *Registrar) serve(t *session) (err error) {
	if t == nil {
		if t, err = r.open(r.ctx); err != nil {
			return err
		}
	}
	return t.serve()
}

// State returns the latest event.
func (r *Registrar) State() Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.event
}

// Key returns the key of the endpoint in etcd.
func (r *Registrar) Key() string { return r.key }

// notify stores an event and reports it if it differs from the last one.
func (r *Registrar) notify(e Event) {
	r.mu.Lock()
	known := e.State == r.event.State && fmt.Sprint(e.Err) == fmt.Sprint(r.event.Err)
	if !known {
		e.Again = e.State == Registered && r.before
		r.before = r.before || e.State != Registered // the first state is Registered
		r.event = e
		r.announceLocked()
	}
	r.mu.Unlock()
	if !known && r.reg.Notify != nil {
		r.reg.Notify(e)
	}
}

// announceLocked wakes the callers that wait for an update.
func (r *Registrar) announceLocked() {
	close(r.changed)
	r.changed = make(chan struct{})
}

// SetWeight changes the weight, see [Registration.Weight], and returns when it is written to
// etcd.
//
// If ctx ends first, the error has the reason; the update is written as soon as possible,
// unless another one replaces it. The same holds for [ErrSuperseded]. An error that names a
// field means that nothing changes.
func (r *Registrar) SetWeight(ctx context.Context, weight uint32) error {
	return r.update(ctx, func(reg *Registration) { reg.Weight = weight })
}

// SetMetadata changes the metadata, see [Registration.Metadata], and returns when that is in
// etcd. Errors are those of SetWeight.
func (r *Registrar) SetMetadata(ctx context.Context, metadata any) error {
	return r.update(ctx, func(reg *Registration) { reg.Metadata = metadata })
}

func (r *Registrar) update(ctx context.Context, change func(*Registration)) error {
	version, err := r.set(change)
	if err != nil {
		return err
	}
	select {
	case r.updates <- struct{}{}:
	default:
	}
	for {
		ended := ctx.Err() // checked first, so that the state is no older
		r.mu.Lock()
		written, event, changed := r.written, r.event, r.changed
		r.mu.Unlock()
		var err error
		switch {
		case written >= version:
			return nil
		case r.client.Ctx().Err() != nil:
			err = registry.ErrClientClosed
		case r.ctx.Err() != nil:
			err = ErrWithdrawn
		case event.State == Superseded:
			err = ErrSuperseded
		case ended != nil:
			return notYet(r.key, event, ended)
		}
		if err != nil {
			return fmt.Errorf("etcd: %q is not updated: %w", r.key, err)
		}
		select {
		case <-changed:
		case <-r.ctx.Done():
		case <-ctx.Done():
		}
	}
}

// notYet returns the error of an update whose ctx has ended.
func notYet(key string, event Event, ended error) error {
	if event.Err != nil {
		ended = fmt.Errorf("%w (%w)", ended, event.Err)
	}
	return fmt.Errorf("etcd: %q is not updated yet: it is %v: %w", key, event.State, ended)
}

// set changes what is to be written, and returns its version.
func (r *Registrar) set(change func(*Registration)) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	next := r.updated
	change(&next)
	if err := next.validate(); err != nil {
		return 0, err
	}
	value, err := next.value()
	if err != nil {
		return 0, err
	}
	r.updated, r.value = next, value
	r.version++
	return r.version, nil
}

// desired returns what is to be written.
func (r *Registrar) desired() (value string, version int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.value, r.version
}

// wrote records that a version is in etcd.
func (r *Registrar) wrote(version int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if version > r.written {
		r.written = version
		r.announceLocked()
	}
}

// Withdraw removes the endpoint from etcd permanently. It revokes the lease, so it cannot delete
// the key of another registration, and a late write cannot restore the endpoint. After an error it
// can be called again.
//
// An error means that etcd was unreachable until ctx ended: the endpoint then expires with
// its lease, the TTL after the last renewal. If ctx has ended before the call, nothing is
// sent, and the lease is no longer renewed.
func (r *Registrar) Withdraw(ctx context.Context) error {
	r.cancel()
	if err := r.ownKey(ctx); err != nil {
		return r.notWithdrawn(err)
	}
	defer func() { <-r.owned }()
	err := r.revoke(ctx)
	r.notify(Event{State: Withdrawn, Lease: r.State().Lease, Err: err})
	return err
}

// ownKey waits until the leases have no owner, and takes them. A canceled goroutine releases them
// at once, unless Notify blocks; ownKey waits for it even if ctx has ended.
func (r *Registrar) ownKey(ctx context.Context) error {
	select {
	case r.owned <- struct{}{}:
		return nil
	case <-ctx.Done():
	}
	late := time.NewTimer(cleanupTimeout)
	defer late.Stop()
	select {
	case r.owned <- struct{}{}:
		return nil
	case <-late.C:
		return ctx.Err()
	}
}

// revoke ends all leases that may have the key attached.
func (r *Registrar) revoke(ctx context.Context) error {
	for len(r.leases) > 0 {
		if _, err := r.client.Revoke(ctx, r.leases[0]); err != nil && !errors.Is(err, rpctypes.ErrLeaseNotFound) {
			return r.notWithdrawn(err)
		}
		r.leases = r.leases[1:]
	}
	return nil
}

func (r *Registrar) notWithdrawn(err error) error {
	return fmt.Errorf("etcd: withdrawing %q, which expires in %d s at most: %w", r.key, r.reg.seconds(), err)
}
