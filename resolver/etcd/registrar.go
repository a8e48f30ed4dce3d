package etcd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	gresolver "google.golang.org/grpc/resolver"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/concurrency"
	"github.com/quorate/quorate/clientv3/naming/resolver"
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
	reg     Registration // as given to Register
	key     *concurrency.KeptKey
	updated Registration // reg with all updates; only KeptKey.Update uses it
}

// Register puts an endpoint into etcd and keeps it there until [Registrar.Withdraw], or until the
// client is closed. It returns when the key is written; ctx bounds only that. Without a deadline
// it fails after 30 s at the latest.
//
// It replaces another registration of the same key: that of an earlier process, or of a running
// one, which becomes Superseded. [Registration.Notify] is called before Register returns.
//
// If a program closes the client without Withdraw, the endpoint stays in etcd for the TTL.
//
// The error names the invalid field, or is the client's error. The endpoint is then not in
// etcd, or for at most the TTL.
func Register(ctx context.Context, client *clientv3.Client, registration Registration) (*Registrar, error) {
	switch {
	case client == nil:
		return nil, errors.New("etcd: the client is nil; give one that clientv3.New returned")
	case client.KV == nil || client.Watcher == nil || client.Lease == nil:
		return nil, errors.New("etcd: the client has no KV, Watcher or Lease service; give one that clientv3.New returned")
	}
	reg := registration.clone()
	if err := reg.validate(); err != nil {
		return nil, err
	}
	value, err := reg.value()
	if err != nil {
		return nil, err
	}
	kept, end := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, end)
	opts := concurrency.KeyOptions{TTL: cmp.Or(reg.TTL, DefaultTTL), Overwrite: true, Notify: reg.Notify}
	if deadline, bounded := ctx.Deadline(); bounded {
		opts.FirstTimeout = max(time.Until(deadline), 1)
	}
	key, err := concurrency.KeepKey(kept, client, reg.key(), value, opts)
	if !stop() && !errors.Is(err, ctx.Err()) {
		if reason := err; reason != nil {
			err = fmt.Errorf("%w (%w)", ctx.Err(), reason)
		} else {
			err = ctx.Err()
		}
	}
	if err != nil {
		end()
		return nil, fmt.Errorf("etcd: registering %q: %w", reg.key(), err)
	}
	return &Registrar{reg: reg, key: key, updated: reg}, nil
}

// State returns the latest event.
func (r *Registrar) State() Event { return r.key.State() }

// Key returns the key of the endpoint in etcd.
func (r *Registrar) Key() string { return r.key.Key() }

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
	var invalid error
	err := r.key.Update(ctx, func(string) (value string, err error) {
		next := r.updated
		change(&next)
		if invalid = next.validate(); invalid == nil {
			value, invalid = next.value()
		}
		if invalid == nil {
			r.updated = next
		}
		return value, invalid
	})
	if err != nil && invalid == nil {
		return fmt.Errorf("etcd: %w", err)
	}
	return err
}

// Withdraw removes the endpoint from etcd permanently. It revokes the lease, so it cannot delete
// the key of another registration, and a late write cannot restore the endpoint. After an error it
// can be called again.
//
// An error means that etcd was unreachable until ctx ended: the endpoint then expires with
// its lease, the TTL after the last renewal. If ctx has ended before the call, nothing is
// sent, and the lease is no longer renewed.
func (r *Registrar) Withdraw(ctx context.Context) error {
	if err := r.key.Remove(ctx); err != nil {
		return fmt.Errorf("etcd: withdrawing %q: %w", r.Key(), err)
	}
	return nil
}

// State is the state of a registration: that of its key.
type State = concurrency.KeyState

const (
	// Registered endpoints are in etcd, with a lease that is kept alive.
	Registered = concurrency.KeyHeld
	// Lost endpoints are not in etcd, or may soon expire. They are being registered again.
	Lost = concurrency.KeyLost
	// Superseded endpoints have lost their key to another registration. They are registered
	// again if that one is deleted.
	Superseded = concurrency.KeySuperseded
	// Withdrawn endpoints are no longer kept registered, after [Registrar.Withdraw].
	Withdrawn = concurrency.KeyRemoved
)

// Event reports a change of a registration's state, or a new reason for the present state.
type Event = concurrency.KeyEvent

var (
	// ErrDeleted is the reason of Lost if the key was deleted while its lease is alive.
	ErrDeleted = concurrency.ErrKeyDeleted

	// ErrSuperseded is returned by updates while another registration has the key.
	ErrSuperseded = concurrency.ErrKeySuperseded

	// ErrWithdrawn is returned by updates after [Registrar.Withdraw].
	ErrWithdrawn = concurrency.ErrKeyRemoved
)

// Scheme is the scheme of the targets: "etcd:///billing".
const Scheme = "etcd"

// Config configures a resolver. The zero value is suitable for most programs.
type Config = resolver.Config

// NewBuilder returns a resolver builder for targets with the scheme "etcd", for
// grpc.WithResolvers: that of resolver.New in package clientv3/naming/resolver.
func NewBuilder(client *clientv3.Client, cfg Config) (gresolver.Builder, error) {
	return resolver.New(client, cfg)
}

// Key returns the etcd key of an endpoint resolved by a Builder, "" for others.
func Key(ep gresolver.Endpoint) string { return resolver.Key(ep) }

// Metadata returns the metadata of an endpoint resolved by a Builder, as encoding/json decodes into
// an any: numbers as float64, objects as map[string]any. It is nil for others, and for an endpoint
// without metadata. The caller must not modify it.
func Metadata(ep gresolver.Endpoint) any { return resolver.Metadata(ep) }
