package cache

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coreos/go-semver/semver"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/internal/lineage"
	"github.com/quorate/quorate/clientv3/internal/semantics"
	"github.com/quorate/quorate/internal/pause"
	"github.com/quorate/quorate/retry"
)

// view is one prefix of the cache. One goroutine ([view.run]) loads and follows it.
type view struct {
	c      *Cache
	prefix string
	keys   semantics.Range
	loaded chan struct{} // closed when it was loaded for the first time
	window *window

	snap     atomic.Pointer[snapshot]  // nil while there is none
	asOf     atomic.Pointer[time.Time] // the snapshot has all writes acknowledged before it; nil if unknown
	proven   atomic.Bool               // there is no doubt below
	lossless atomic.Bool               // watches of the server lose no events
	behind   atomic.Bool               // a read has waited for the target until its timeout

	mu       sync.Mutex
	changed  chan struct{} // closed when any of this changes; nil if none waits
	versions []version     // the last one is that of snap
	held     int64         // bytes that the versions before it alone hold
	floors   []*round      // not reached yet, oldest first
	target   int64         // the highest revision that a read waits for and the store has
	future   int64         // the highest revision that a read waits for and the store may not have; 0 if none does
	waiters  int           // how many wait for such a revision
	asked    int64         // the revision that progress was last asked for
	moved    time.Time     // when the snapshot last advanced, or the target was set
	history  int64         // counts the histories that snapshots were of
	last     lineage.Point // of the last snapshot that was dropped, zero if its history is over
	dropped  error         // why the snapshot was dropped, until the next load begins
	err      error         // why it was last not loaded, or the watch ended
	stop     context.CancelCauseFunc
	feeds    map[*feed]struct{}

	versionDoubt, watchDoubt error // why linearizable reads cannot rely on the watch
}

// maxFloors bounds the floors of a view that are kept until they are reached.
const maxFloors = 8

func newView(c *Cache, prefix string) *view {
	return &view{
		c: c, prefix: prefix, keys: rangeOf(clientv3.OpGet(prefix, clientv3.WithPrefix())),
		loaded: make(chan struct{}), feeds: make(map[*feed]struct{}), versionDoubt: errVersionUnknown, watchDoubt: errNotWatched,
		window: &window{maxEvents: c.cfg.MaxEvents, maxBytes: c.cfg.MaxBytes / 8, watches: make(watchIndex), created: clientv3.WatchResponse{Created: true}},
	}
}

func (v *view) lastError() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.err
}

// snapshotFor returns the snapshot that answers a get, errUnavailable if the server has to answer it,
// or else the error of the get.
func (v *view) snapshotFor(ctx context.Context, op clientv3.Op, b bound) (*snapshot, error) {
	s := v.snap.Load()
	switch {
	case s == nil || !answerable(op) || hasMetadata(ctx):
		return nil, errUnavailable
	case op.IsSerializable() && op.Rev() == 0:
		return s, nil
	case !v.lossless.Load():
		return nil, errUnavailable
	case op.Rev() != 0:
		return v.version(op.Rev())
	case b == (bound{}):
		return v.linearizable(ctx, 0)
	case s.rev >= b.rev && v.isFresh(b.stale):
		if s = v.snap.Load(); s == nil { // again: what was proven fresh may be a later one
			return nil, errUnavailable
		}
		return s, nil
	case b.stale > 0:
		return v.linearizable(ctx, b.rev)
	case !v.serves():
		return nil, errUnavailable
	default:
		return v.awaitFuture(ctx, b.rev)
	}
}

func (v *view) isFresh(stale time.Duration) bool {
	asOf := v.asOf.Load()
	return stale == 0 || asOf != nil && time.Since(*asOf) <= stale
}

// serves reports whether it makes sense to wait for the watch.
func (v *view) serves() bool { return v.proven.Load() && !v.behind.Load() }

// linearizable returns a snapshot that has every write acknowledged before the call, and rev. Past MaxWait the view is behind.
func (v *view) linearizable(ctx context.Context, rev int64) (*snapshot, error) {
	floor, err := v.floorAbove(ctx, rev)
	if err != nil {
		return nil, err
	}
	v.c.advanceTo(v, floor)
	s, err := v.awaitSnapshot(ctx, floor)
	if errors.Is(err, errLate) {
		v.fallBehind(floor)
		return nil, errUnavailable
	}
	return s, err
}

// floorAbove returns a floor. It fails with rpctypes.ErrFutureRev if that shows that the store has not reached rev.
func (v *view) floorAbove(ctx context.Context, rev int64) (int64, error) {
	if !v.serves() {
		return 0, errUnavailable
	}
	r, err := v.c.floors.read(ctx, 0)
	if err != nil {
		return 0, err
	}
	floor := r.header.GetRevision()
	if floor < rev {
		return 0, rpctypes.ErrFutureRev
	}
	return floor, nil
}

// awaitFuture returns the snapshot when it has reached a revision that the store may not have, and may never have. Past MaxWait
// a floor shows whether the view is behind.
func (v *view) awaitFuture(ctx context.Context, rev int64) (*snapshot, error) {
	stop := v.c.advanceToFuture(v, rev)
	s, err := v.awaitSnapshot(ctx, rev)
	stop()
	if !errors.Is(err, errLate) {
		return s, err
	}
	if _, err := v.floorAbove(ctx, rev); err != nil {
		return nil, err
	}
	v.c.advanceTo(v, rev)
	v.fallBehind(rev)
	return nil, errUnavailable
}

// awaitSnapshot returns the snapshot when it has reached a revision, or errLate after MaxWait.
func (v *view) awaitSnapshot(ctx context.Context, rev int64) (*snapshot, error) {
	if s := v.snap.Load(); s != nil && s.rev >= rev {
		return s, nil
	}
	var s *snapshot // nil if it is not to be waited for
	err := v.waitUntil(ctx, time.After(v.c.cfg.MaxWait), func() bool {
		if s = v.snap.Load(); !v.serves() {
			s = nil
		}
		return s == nil || s.rev >= rev
	})
	if errors.Is(err, ErrClosed) || err == nil && s == nil {
		err = errUnavailable
	}
	if err != nil {
		return nil, err
	}
	return s, nil
}

// waitUntil calls done after each change and returns nil when it reports true. Otherwise it returns the error of ctx,
// ErrClosed, or errLate after the timeout.
func (v *view) waitUntil(ctx context.Context, timeout <-chan time.Time, done func() bool) error {
	for {
		changed := v.awaitChange()
		if done() {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		case <-v.c.ctx.Done():
			return ErrClosed
		case <-timeout:
			return errLate
		}
	}
}

// fallBehind makes reads go to the server until the watch has caught up.
func (v *view) fallBehind(rev int64) {
	v.c.stats.timeouts.Add(1)
	v.mu.Lock()
	defer v.mu.Unlock()
	if s := v.snap.Load(); s != nil && s.rev < rev {
		v.behind.Store(true)
		v.notifyLocked()
	}
}

func (v *view) awaitChange() <-chan struct{} {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.changed == nil {
		v.changed = make(chan struct{})
	}
	return v.changed
}

func (v *view) notifyLocked() {
	if v.changed != nil {
		close(v.changed)
		v.changed = nil
	}
}

// version returns the snapshot that answers a read at a revision.
func (v *view) version(rev int64) (*snapshot, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	s := v.snap.Load()
	if s == nil || rev < 0 || rev > s.rev {
		return nil, errUnavailable
	}
	for _, old := range slices.Backward(v.versions) {
		if rev >= old.first {
			if rev > old.last && old.tree != s.tree {
				return nil, errUnavailable // between two versions
			}
			return s.at(old.tree), nil
		}
	}
	return nil, errUnavailable
}

// prove records a floor.
func (v *view) prove(r *round) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.floors) < maxFloors {
		v.floors = append(v.floors, r)
	}
	v.proveLocked()
}

// proveLocked advances the time as of which the snapshot is known to be complete.
func (v *view) proveLocked() {
	s := v.snap.Load()
	if s == nil {
		v.floors = nil
		return
	}
	for len(v.floors) > 0 && v.floors[0].header.GetRevision() <= s.rev {
		if asOf := v.asOf.Load(); asOf == nil || asOf.Before(v.floors[0].sent) {
			v.asOf.Store(&v.floors[0].sent)
		}
		v.floors = v.floors[1:]
	}
}

// change is what a new snapshot brings.
type change struct {
	next *snapshot
	// first is the revision of the first change, and keys are those that changed, nil for any.
	first  int64
	keys   []string
	events []*event
	// replaced are the bytes of the values that are not in the snapshot any more.
	replaced int64
	resync   *Resynced
}

// publish makes a snapshot, whose bytes are reserved, the present one, unless its predecessor was dropped meanwhile.
func (v *view) publish(ch change) bool {
	published := v.setSnapshot(ch)
	if published {
		v.window.deliver(ch)
	}
	return published
}

func (v *view) setSnapshot(ch change) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.dropped != nil {
		return false
	}
	before := v.snap.Load()
	v.snap.Store(ch.next)
	v.keepLocked(ch)
	v.window.note(ch)
	v.advancedLocked(before, ch.next.rev)
	for f := range v.feeds {
		f.noteLocked(ch)
	}
	return true
}

// keepLocked adds a version, and forgets old ones.
func (v *view) keepLocked(ch change) {
	if v.c.cfg.MaxVersions == 0 {
		v.versions = nil
	}
	if n := len(v.versions); n > 0 {
		v.versions[n-1].last = ch.first - 1
		v.versions[n-1].replaced = ch.replaced
		v.held += ch.replaced
	}
	v.versions = append(v.versions, version{tree: ch.next.tree, first: ch.next.rev})
	drop := 0
	for len(v.versions)-drop > 1 && (len(v.versions)-drop > v.c.cfg.MaxVersions+1 || v.held > v.c.cfg.MaxBytes/8) {
		v.held -= v.versions[drop].replaced
		v.versions[drop] = version{}
		drop++
	}
	v.versions = v.versions[drop:]
}

// advance records that nothing has changed up to the revision of a header.
func (v *view) advance(h *pb.ResponseHeader) {
	v.mu.Lock()
	defer v.mu.Unlock()
	s := v.snap.Load()
	if v.dropped != nil || s == nil || h.GetRevision() <= s.rev {
		return
	}
	v.snap.Store(&snapshot{tree: s.tree, rev: h.GetRevision(), bytes: s.bytes, header: h, history: s.history})
	v.window.advance(h)
	v.advancedLocked(s, h.GetRevision())
}

func (v *view) advancedLocked(before *snapshot, rev int64) {
	v.moved = time.Now()
	if rev >= v.target {
		v.behind.Store(false)
	}
	if before != nil && before.rev < v.asked && rev >= v.asked {
		v.c.requester.notify()
	}
	v.proveLocked()
	v.notifyLocked()
}

// abandon drops the snapshot, so that the prefix is loaded again. If there is none, the history of watches may be over.
func (v *view) abandon(cause error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	held := v.snap.Load() != nil
	v.dropLocked(cause)
	if !held {
		return
	}
	v.dropped = cause
	if v.stop != nil {
		v.stop(cause)
	}
}

func (v *view) drop(cause error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.dropLocked(cause)
}

func (v *view) dropLocked(cause error) {
	if s := v.snap.Swap(nil); s != nil {
		v.c.bytes.Add(-s.bytes)
		v.last = pointOf(s)
	}
	var ended error
	if changed, ok := errors.AsType[*clientv3.ClusterChangedError](cause); ok {
		v.last, ended = lineage.Point{}, changed
	}
	v.window.drop(ended)
	v.asOf.Store(nil)
	v.watchDoubt = errNotWatched
	v.proven.Store(false)
	v.behind.Store(false)
	v.versions, v.held, v.floors, v.target, v.asked = nil, 0, nil, 0, 0
	v.notifyLocked()
	v.c.requester.notify()
}

// The errors for which linearizable reads do not use memory, in addition to errors of the server.
var (
	errNotLoaded      = errors.New("it has not been read yet")
	errNotWatched     = errors.New("its watch is not open")
	errBehind         = errors.New("its watch is behind")
	errUnproven       = errors.New("the progress notifications of the server prove nothing: it is kine, a grpc-proxy or an etcd that answers early")
	errVersionUnknown = errors.New("the version of the server is not known yet")
	errLoses          = errors.New("loses events of watches at compactions; 3.4.36, 3.5.18 and later do not")
	errNoConn         = errors.New("the version of the server is not known: the client has no connection of its own")
)

const (
	// versionTimeout bounds the wait for a version, and versionInterval is how often it is asked for: members are upgraded under a
	// watch. It varies by 10 %.
	versionTimeout  = 10 * time.Second
	versionInterval = 10 * time.Minute
)

// versionPauses are the pauses after failed requests for the version, with full jitter.
var versionPauses = retry.Policy{InitialBackoff: 100 * time.Millisecond, MaxBackoff: time.Minute}

// keepsEvents are the first releases, by minor version, whose watches get every event that follows their revision, whatever is
// compacted. Before 3.4.31 and 3.5.13 a watcher that is behind may lose events when it meets a compaction (etcd 17612). One that
// resumes at the compacted revision loses a deletion of that revision: always before 3.4.34 and 3.5.16 (etcd 18089), and
// before 3.4.36 and 3.5.18 if the server had crashed during the compaction (etcd 19179).
var keepsEvents = map[int64]semver.Version{
	4: {Major: 3, Minor: 4, Patch: 36},
	5: {Major: 3, Minor: 5, Patch: 18},
	6: {Major: 3, Minor: 6},
}

// followVersion asks for the version of the server until ctx ends. One member answers for all. A server that is none of etcd's is
// found out by WatchResponse.IsProven. After an error that may pass it is asked again, and trusted meanwhile if it was before.
func (v *view) followVersion(ctx context.Context) {
	for failures := 0; ctx.Err() == nil; {
		transient, doubt := v.c.doubtOfVersion(ctx)
		wait := versionInterval*9/10 + rand.N(versionInterval/5)
		if transient {
			failures++
			wait = versionPauses.Delay(failures)
		} else {
			failures = 0
		}
		if ctx.Err() == nil && (!transient || !v.lossless.Load()) {
			v.setVersionDoubt(doubt)
		}
		_ = pause.For(ctx, wait) // the loop sees that it has ended
	}
}

// doubtOfVersion returns why only serializable reads may rely on watches of the server, nil if all reads may.
func (c *Cache) doubtOfVersion(ctx context.Context) (transient bool, doubt error) {
	conn := c.client.ActiveConnection()
	if conn == nil {
		return false, errNoConn
	}
	ctx, cancel := context.WithTimeout(ctx, versionTimeout)
	defer cancel()
	resp, err := pb.NewMaintenanceClient(conn).Status(ctx, &pb.StatusRequest{}, grpc.WaitForReady(true))
	if errors.Is(rpctypes.Error(err), rpctypes.ErrPermissionDenied) {
		return false, nil // 3.5.28 to 3.5.34 and 3.6.0 to 3.6.15 permit it to root alone, and keep events
	}
	if err != nil {
		return retry.CodeOf(err) != codes.Unimplemented, fmt.Errorf("the version of the server is not known: %w", err)
	}
	version, err := semver.NewVersion(strings.TrimPrefix(resp.Version, "v"))
	if err != nil {
		return false, fmt.Errorf("the version of the server is not known: %w", err)
	}
	first, ok := keepsEvents[version.Minor]
	if version.Major < 3 || version.Major == 3 && (version.Minor < 4 || ok && version.LessThan(first)) {
		return false, fmt.Errorf("etcd %s %w", version, errLoses)
	}
	return false, nil
}

// setVersionDoubt records the doubt about the version of the server. A prefix that was followed on a server that loses events is loaded
// again before it is trusted. It is not called concurrently.
func (v *view) setVersionDoubt(doubt error) {
	switch lost := errors.Is(v.versionDoubt, errLoses); {
	case lost && doubt == nil:
		v.abandon(errUnavailable)
		return
	case lost && !errors.Is(doubt, errVersionUnknown):
		return // until it is loaded again
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.versionDoubt = doubt
	v.lossless.Store(doubt == nil)
	v.window.setLossless(doubt == nil)
	v.doubtLocked()
}

// setWatchDoubt records why the watch proves nothing, nil if it does.
func (v *view) setWatchDoubt(err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if errors.Is(v.watchDoubt, err) {
		return // waiting reads need not check again
	}
	v.watchDoubt = err
	v.doubtLocked()
}

func (v *view) doubtLocked() {
	if proven := v.versionDoubt == nil && v.watchDoubt == nil; v.proven.Swap(proven) != proven {
		v.c.requester.notify()
	}
	v.notifyLocked()
}

// remoteReason returns why linearizable reads of the prefix go to the server, nil if memory answers them.
func (v *view) remoteReason() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	reason := v.versionDoubt
	switch {
	case v.snap.Load() == nil && v.err != nil:
		reason = v.err
	case v.snap.Load() == nil:
		reason = errNotLoaded
	case reason == nil && v.watchDoubt != nil:
		reason = v.watchDoubt
	case reason == nil && v.behind.Load():
		reason = errBehind
	case reason == nil:
		return nil
	}
	return fmt.Errorf("etcdclient: cache: %q is read from the server: %w", v.prefix, reason)
}
