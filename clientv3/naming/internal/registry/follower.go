package registry

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.uber.org/zap"
	"google.golang.org/grpc/codes"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/health"
	"github.com/quorate/quorate/internal/pause"
	"github.com/quorate/quorate/retry"
)

// Change is a change of one key.
type Change struct {
	Key string
	// Deleted is set if the key was deleted; Endpoint is empty then.
	Deleted  bool
	Endpoint Endpoint
	// Revision is the revision of the value, 0 for a deleted key.
	Revision int64
}

// Observer receives the events of a [Follower]. Changed is called by one goroutine at a time, and so
// are Lost and Regained.
type Observer interface {
	// Changed is called after every list, with the differences, which may be none; then
	// with the changes as they happen, all changes of a revision in one call.
	Changed(changes []Change)
	// Lost is called when the Follower loses contact with etcd: the list or the watch was
	// refused, or etcd does not answer. The known endpoints stay valid, and the Follower
	// keeps trying. Lost is called again when the reason changes.
	Lost(err error)
	// Regained is called after Lost when the Follower is synced again.
	Regained()
}

// Follower holds the endpoints of a target as of some revision. It is not safe for
// concurrent use.
type Follower struct {
	// Decode makes an endpoint of a value. The default reads those of [Encode].
	Decode func(value []byte) (Endpoint, error)

	client *clientv3.Client
	prefix string
	sync   syncState

	// known has the value of every key that was reported. A key whose new value is
	// invalid keeps its last valid one.
	known map[string]string
	// rev is the revision up to which known is complete, or, before a list, one that the
	// cluster has reached.
	rev int64
	// listed is set if a watch can continue from rev.
	listed bool
}

// NewFollower returns an empty Follower. It reports lost contact only after tolerance,
// where 0 means [DefaultTolerance].
func NewFollower(client *clientv3.Client, target string, tolerance time.Duration) *Follower {
	f := &Follower{Decode: decode, client: client, prefix: Prefix(target), known: map[string]string{}}
	f.sync.statuses, f.sync.tolerance = client.EndpointStatus, cmp.Or(tolerance, DefaultTolerance)
	return f
}

// List reads all endpoints and returns the differences: new and changed ones in the order
// of the keys, then deleted ones.
//
// It uses a serializable read, which needs no quorum. If the member is behind a revision
// seen before, List repeats it as a linearizable read. That result always counts, as the
// cluster may have been restored from a backup.
func (f *Follower) List(ctx context.Context) ([]Change, error) {
	kvs, rev, err := f.read(ctx, clientv3.WithPrefix(), clientv3.WithSerializable())
	if err == nil && rev < f.rev {
		kvs, rev, err = f.read(ctx, clientv3.WithPrefix())
	}
	if err != nil {
		return nil, err
	}
	var changes []Change
	gone := maps.Clone(f.known)
	for _, kv := range kvs {
		key, value := string(kv.Key), string(kv.Value)
		delete(gone, key)
		if before, ok := f.known[key]; ok && before == value {
			continue
		}
		if e, ok := f.decode(kv); ok {
			f.known[key] = value
			changes = append(changes, Change{Key: key, Endpoint: e, Revision: kv.ModRevision})
		}
	}
	for _, key := range slices.Sorted(maps.Keys(gone)) {
		delete(f.known, key)
		changes = append(changes, Change{Key: key, Deleted: true})
	}
	f.rev, f.listed = rev, true
	return changes, nil
}

// read reads the keys in pages, and returns their revision.
func (f *Follower) read(ctx context.Context, opts ...clientv3.OpOption) (kvs []*mvccpb.KeyValue, rev int64, err error) {
	for page, err := range clientv3.Pages(ctx, f.client, f.prefix, opts...) {
		if err != nil {
			return nil, 0, err
		}
		kvs, rev = append(kvs, page.Kvs...), page.Header.GetRevision()
	}
	return kvs, rev, nil
}

func (f *Follower) apply(events []*clientv3.Event) []Change {
	changes := make([]Change, 0, len(events))
	for _, ev := range events {
		key := string(ev.Kv.Key)
		f.rev = ev.Kv.ModRevision
		if ev.Type == clientv3.EventTypeDelete {
			delete(f.known, key)
			changes = append(changes, Change{Key: key, Deleted: true})
			continue
		}
		if e, ok := f.decode(ev.Kv); ok {
			f.known[key] = string(ev.Kv.Value)
			changes = append(changes, Change{Key: key, Endpoint: e, Revision: ev.Kv.ModRevision})
		}
	}
	return changes
}

// listTimeout bounds one list, which the client itself retries after a fault. It is
// longer than the maximum delay between attempts, so that an outage does not make the
// delays grow.
const listTimeout = 15 * time.Second

// ErrClientClosed is returned when the etcd client is closed.
var ErrClientClosed = errors.New("the etcd client was closed")

var errWatchClosed = errors.New("the watch was closed")

// Follow reports all changes to o since the last List, or lists first if there was none.
// Whenever the watch breaks, for example after a compaction, it lists again. It waits
// between attempts, see pause.Backoff.
//
// It returns when ctx ends, with its error, or when the client is closed, with
// ErrClientClosed.
func (f *Follower) Follow(ctx context.Context, o Observer) error {
	watching, cancel := context.WithCancel(ctx)
	defer context.AfterFunc(f.client.Ctx(), cancel)()
	f.sync.observer = o
	var checks sync.WaitGroup
	checks.Go(func() { f.sync.checkUntilDone(watching) })
	defer checks.Wait()
	defer cancel()

	var delay pause.Backoff
	for {
		began := time.Now()
		err := f.listAndWatch(watching, o)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case f.client.Ctx().Err() != nil:
			return ErrClientClosed
		case errors.Is(err, rpctypes.ErrCompacted):
			f.sync.markStale() // until the next list
		case isSilence(err):
			f.sync.unanswered(err)
		default:
			f.sync.refused(err)
		}
		delay.Wait(watching, time.Since(began))
	}
}

// isSilence reports whether the error means that etcd is unreachable, not that it
// refused.
func isSilence(err error) bool {
	code := retry.CodeOf(err)
	return code == codes.Unavailable || code == codes.DeadlineExceeded
}

// listAndWatch lists and watches until an error, which it returns. It makes the watch before it passes the list on: one that is
// made later does not notice that the cluster was restored meanwhile.
func (f *Follower) listAndWatch(ctx context.Context, o Observer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	f.sync.markStale()
	list := !f.listed
	var changes []Change
	if list {
		listing, cancel := context.WithTimeout(ctx, listTimeout)
		var err error
		changes, err = f.List(listing)
		cancel()
		if err != nil {
			return fmt.Errorf("listing the endpoints below %q: %w", f.prefix, err)
		}
	}
	f.listed = false
	responses := f.client.Watch(ctx, f.prefix, clientv3.WithPrefix(), clientv3.WithRev(f.rev+1), clientv3.WithCreatedNotify())
	if list {
		o.Changed(changes)
	}
	return fmt.Errorf("watching the endpoints below %q: %w", f.prefix, f.follow(responses, o))
}

func (f *Follower) follow(responses clientv3.WatchChan, o Observer) error {
	for resp := range responses {
		if err := resp.Err(); err != nil {
			f.rev = max(f.rev, resp.CompactRevision)
			return err
		}
		if resp.Created {
			f.sync.markSynced()
		}
		if changes := f.apply(resp.Events); len(changes) > 0 {
			o.Changed(changes)
		}
	}
	return errWatchClosed
}

// Prefix returns the prefix of the keys of all endpoints of a target. The slash separates
// the target "svc" from "svc2".
func Prefix(target string) string { return target + "/" }

// Endpoint is what is registered under a key.
type Endpoint struct {
	Addr     string
	Metadata any
}

// record is the value of a key, in JSON. The form is that of naming.Update in
// grpc-go up to 1.29, and every etcd client since 3.1 reads and writes it.
type record struct {
	// Op was the operation of an update. The value of a key always has 0, for an
	// addition; readers ignore it.
	Op       uint8
	Addr     string
	Metadata any
}

// Encode returns the value of the key under which e is registered. It fails if the
// metadata has no form in JSON.
func Encode(e Endpoint) (string, error) {
	value, err := json.Marshal(record{Addr: e.Addr, Metadata: e.Metadata})
	return string(value), err
}

func decode(value []byte) (Endpoint, error) {
	var r record
	err := json.Unmarshal(value, &r)
	return Endpoint{Addr: r.Addr, Metadata: r.Metadata}, err
}

// decode returns the endpoint that a key holds. It logs an invalid value to the client's
// logger and returns false.
func (f *Follower) decode(kv *mvccpb.KeyValue) (Endpoint, bool) {
	e, err := f.Decode(kv.Value)
	if err != nil {
		f.client.GetLogger().Warn("a registered endpoint cannot be understood and is ignored",
			zap.ByteString("key", kv.Key), zap.Error(err))
	}
	return e, err == nil
}

const (
	// checkInterval is the time between two checks of the health of the client's
	// endpoints. A check reads a table.
	checkInterval = 500 * time.Millisecond

	// DefaultTolerance is how long etcd may be unreachable before the Follower reports
	// it. Shorter outages are elections or reconnections, and do not matter while there
	// is a list.
	DefaultTolerance = time.Second

	// suspicionLimit is how long all endpoints may be Suspected before they count as out, and how long
	// they may take to connect before that is reported.
	// With a witness, the client's probes decide within half a second; when all endpoints
	// are silent, they stay Suspected.
	suspicionLimit = 3 * time.Second
)

// errUnanswered is reported when the health of the endpoints gives no better reason.
var errUnanswered = errors.New("etcd does not answer")

// syncState is whether a Follower is synced, and what its observer was notified of. It is synced
// while a watch is established and endpoints serve. The zero value is synced.
type syncState struct {
	statuses  func() []health.Status
	observer  Observer
	tolerance time.Duration

	mu       sync.Mutex
	since    time.Time // when it became stale, zero while synced
	watching bool      // a watch is established, which the client resumes by itself
	cause    error     // the last error that means that etcd is unreachable, nil for none
	reported string    // the reason last reported to the observer, "" for none
}

// markStale marks the state stale until a watch is established.
func (s *syncState) markStale() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.staleLocked()
}

func (s *syncState) staleLocked() {
	s.watching = false
	s.beginLocked()
}

func (s *syncState) beginLocked() {
	if s.since.IsZero() {
		s.since = time.Now()
	}
}

// markSynced is called when a watch is established.
func (s *syncState) markSynced() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.syncedLocked()
}

func (s *syncState) syncedLocked() {
	s.watching, s.since, s.cause = true, time.Time{}, nil
	if s.reported != "" {
		s.reported = ""
		s.observer.Regained()
	}
}

// refused reports an error that etcd returned.
func (s *syncState) refused(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.staleLocked()
	s.notifyLocked(err.Error(), err)
}

// unanswered records an error that means that etcd is unreachable, and reports it if that
// lasts.
func (s *syncState) unanswered(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.staleLocked()
	s.cause = err
	if s.reported == "" && time.Since(s.since) >= s.tolerance {
		s.notifyLocked(err.Error(), err)
	}
}

// checkUntilDone checks the endpoints until ctx ends.
func (s *syncState) checkUntilDone(ctx context.Context) {
	for pause.For(ctx, checkInterval) == nil {
		s.check()
	}
}

func (s *syncState) check() {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	view, worst := evaluate(s.statuses(), now)
	switch {
	case view == out:
		s.beginLocked()
	case view == serving && s.watching:
		s.syncedLocked()
	}
	connecting := view == unclear && s.cause == nil // over a slow network, the first connection takes a while
	if stale := now.Sub(s.since); s.since.IsZero() || stale < s.tolerance || connecting && stale < suspicionLimit {
		return
	}
	if view == out {
		s.notifyLocked(worst.State.String(), fmt.Errorf("etcd cannot be reached: no endpoint serves; %s is %v (%v)",
			worst.Endpoint, worst.State, worst.Evidence))
	} else if s.reported == "" {
		err := cmp.Or(s.cause, errUnanswered)
		s.notifyLocked(err.Error(), err)
	}
}

// notifyLocked reports a new reason to the observer.
func (s *syncState) notifyLocked(reason string, err error) {
	if s.reported == reason {
		return
	}
	s.reported = reason
	s.observer.Lost(err)
}

// view is the state of a cluster, derived from its endpoints.
type view uint8

const (
	unclear view = iota // an endpoint that may serve has no evidence yet
	serving             // at least one endpoint serves
	out                 // none does
)

// evaluate returns the state of the cluster and, if it is out, the status of an endpoint as
// the reason.
func evaluate(statuses []health.Status, now time.Time) (view, health.Status) {
	v := unclear
	var worst health.Status
	open := false
	for _, st := range statuses {
		switch st.State {
		case health.Serving, health.Slow:
			return serving, health.Status{}
		case health.Suspected:
			if now.Sub(st.Since) < suspicionLimit {
				return serving, health.Status{}
			}
			v, worst = out, st
		case health.Lagging, health.Degraded, health.NotServing, health.Dead:
			v, worst = out, st
		case health.Restricted, health.Draining: // these serve no calls and are no evidence
		default:
			open = true
		}
	}
	if open {
		return unclear, health.Status{}
	}
	return v, worst
}
