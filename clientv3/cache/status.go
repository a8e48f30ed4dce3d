package cache

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
)

// State is the state of a prefix in a [Status].
type State int

const (
	// Loading is a prefix that is not in memory: all of its reads go to the server.
	Loading State = iota + 1
	// InSync is a prefix in memory that follows the cluster.
	InSync
	// Stale is a prefix in memory whose watch is not open, or is behind, or of which nothing has proven for two
	// [Config.ProbeInterval] that it has every write.
	Stale
	// Denied is a prefix that is not in memory because the client's user may not read it.
	Denied
)

func (s State) String() string {
	names := map[State]string{Loading: "loading", InSync: "in sync", Stale: "stale", Denied: "denied"}
	return cmp.Or(names[s], fmt.Sprintf("State(%d)", int(s)))
}

// Status is the state of a prefix.
type Status struct {
	Prefix string
	State  State
	// Since is the latest time of which memory is known to have every acknowledged write, zero if there is none. A
	// stale prefix is stale since then.
	Since time.Time
	// Err says why linearizable reads go to the server, as [Freshness.Err] does; nil if they do not.
	Err error
}

// Status returns the state of each prefix, in their order. It sends no request.
func (c *Cache) Status() []Status {
	all := make([]Status, 0, len(c.views))
	for _, v := range c.views {
		all = append(all, v.status())
	}
	return all
}

func (v *view) status() Status {
	s := Status{Prefix: v.prefix, State: InSync, Err: v.remoteReason()}
	asOf := v.asOf.Load()
	if asOf != nil {
		s.Since = *asOf
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	switch {
	case v.snap.Load() == nil && (errors.Is(v.err, rpctypes.ErrPermissionDenied) || errors.Is(v.dropped, rpctypes.ErrPermissionDenied)):
		s.State = Denied
	case v.snap.Load() == nil:
		s.State = Loading
	case errors.Is(v.watchDoubt, errNotWatched), v.behind.Load(), asOf != nil && time.Since(*asOf) > 2*v.c.cfg.ProbeInterval:
		s.State = Stale
	}
	return s
}

// followStatus calls OnStatus when the state changes.
func (v *view) followStatus() {
	var last State
	tick := time.Tick(v.c.cfg.ProbeInterval / 2)
	for {
		changed := v.awaitChange()
		if s := v.status(); s.State != last {
			last = s.State
			v.c.cfg.OnStatus(s)
		}
		select {
		case <-changed:
		case <-tick:
		case <-v.c.ctx.Done():
			return
		}
	}
}

// WaitForRevision returns when every prefix has all changes up to a revision, that of a write for instance: what is read from
// memory afterwards has them. It asks for progress meanwhile, up to once a second after the first, so a revision that the
// store does not reach is waited for until ctx ends; so is any with a server whose progress proves nothing, until a key of each
// prefix changes. The error is that of ctx, or [ErrClosed].
func (c *Cache) WaitForRevision(ctx context.Context, rev int64) error {
	for _, v := range c.views {
		if err := v.waitForRevision(ctx, rev); err != nil {
			return err
		}
	}
	return nil
}

func (v *view) waitForRevision(ctx context.Context, rev int64) error {
	reached := func() bool {
		s := v.snap.Load()
		return s != nil && s.rev >= rev
	}
	if reached() {
		return nil
	}
	defer v.c.advanceToFuture(v, rev)()
	return v.waitUntil(ctx, nil, reached)
}

// WaitForRevision returns when the objects have all changes of their prefix up to a revision, that of a write for instance: a
// read of the informer has them. [Cache.WaitForRevision] says what it costs, and when it waits for longer. Handlers may not have
// received them yet. The error is that of ctx, or [ErrClosed].
func (in *Informer[T]) WaitForRevision(ctx context.Context, rev int64) error {
	waiting, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(in.ctx, cancel)()
	for {
		if err := in.view.waitForRevision(waiting, rev); err != nil { // again if the history has changed
			if ctx.Err() == nil {
				return ErrClosed
			}
			return err
		}
		in.mu.RLock()
		reached, updated := in.rev >= rev, in.updated
		in.mu.RUnlock()
		if reached {
			return nil
		}
		in.feed.signal() // progress does not wake the informer
		select {
		case <-updated:
		case <-ctx.Done():
			return ctx.Err()
		case <-in.ctx.Done():
			return ErrClosed
		}
	}
}
