// Package lineage detects that a cluster is not the one that it was: another
// cluster answers, or the same one with an earlier revision, because it was
// restored from a backup. What a client has read before then belongs to a history
// that is over.
package lineage

import (
	"sync"
	"sync/atomic"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// Point is a point in the history of a cluster.
type Point struct {
	Cluster  uint64
	Revision int64
}

// Change is the end of a history: its ID and highest revision, and those of the header
// that shows another history. It converts to clientv3.ClusterChangedError.
type Change struct {
	OldClusterID uint64
	OldRevision  int64
	NewClusterID uint64
	NewRevision  int64
}

// Tracker tracks the history of one client's cluster. A nil Tracker detects nothing.
type Tracker struct {
	errorOf func(*Change) error
	current atomic.Pointer[History]

	mu          sync.Mutex
	subscribers map[*func()]struct{}
}

// History is one history of the cluster, as seen by the client.
type History struct {
	cluster  atomic.Uint64 // 0 until known
	revision atomic.Int64  // the highest revision seen
	err      error         // why it is over, set before the next one becomes current
}

// New returns a Tracker; errorOf returns the error of a history that is over.
func New(errorOf func(*Change) error) *Tracker {
	t := &Tracker{errorOf: errorOf, subscribers: make(map[*func()]struct{})}
	t.current.Store(new(History))
	return t
}

// History returns the current history.
func (t *Tracker) History() *History {
	if t == nil {
		return nil
	}
	return t.current.Load()
}

// Revision returns the highest revision seen in the history.
func (h *History) Revision() int64 {
	if h == nil {
		return 0
	}
	return h.revision.Load()
}

// Over returns why the history is over, nil while it is the current one.
func (t *Tracker) Over(h *History) error {
	if t == nil || h == nil || t.current.Load() == h {
		return nil
	}
	return h.err
}

// Begin returns what Note needs of the time before a request: the current history, and the least
// revision of a linearizable response.
func (t *Tracker) Begin() (h *History, least int64) {
	if t == nil {
		return nil, 0
	}
	h = t.current.Load()
	return h, h.revision.Load()
}

// Note processes the header of a response to a request made in the history, and reports
// whether the history is still current. A revision below least means that the store has
// gone back: pass for a linearizable response the highest revision seen before its request,
// and 0 for a response of a member that may lag.
//
// Note ignores headers without a cluster ID, which kine and etcd's grpc-proxy send.
func (t *Tracker) Note(h *History, header *pb.ResponseHeader, least int64) bool {
	if t == nil || h == nil {
		return true
	}
	if t.current.Load() != h {
		return false
	}
	cluster := header.GetClusterId()
	if cluster == 0 {
		return true
	}
	if h.cluster.Load() == 0 {
		h.cluster.CompareAndSwap(0, cluster)
	}
	rev := header.GetRevision()
	if cluster != h.cluster.Load() || rev < least {
		if c := Compare(Point{h.cluster.Load(), least}, header, least > 0); c != nil {
			t.End(h, c)
			return false
		}
	}
	if rev > h.revision.Load() {
		h.Reach(rev)
	}
	return true
}

// Reach raises the highest revision seen to rev. Note does so for every header with a
// cluster ID.
func (h *History) Reach(rev int64) {
	for seen := h.revision.Load(); rev > seen; seen = h.revision.Load() {
		if h.revision.CompareAndSwap(seen, rev) {
			return
		}
	}
}

// End ends a history, if it is the current one. What is over is at the highest revision that was seen.
func (t *Tracker) End(h *History, c *Change) {
	t.mu.Lock()
	if t.current.Load() != h {
		t.mu.Unlock()
		return
	}
	next := new(History)
	next.cluster.Store(c.NewClusterID)
	next.revision.Store(c.NewRevision)
	c.OldRevision = h.revision.Load()
	h.err = t.errorOf(c)
	t.current.Store(next)
	notified := make([]func(), 0, len(t.subscribers))
	for f := range t.subscribers {
		notified = append(notified, *f)
	}
	t.mu.Unlock()
	for _, f := range notified {
		f()
	}
}

// Subscribe calls f after each end of a history, on the goroutine that detected it.
func (t *Tracker) Subscribe(f func()) (unsubscribe func()) {
	if t == nil {
		return func() {}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.subscribers[&f] = struct{}{}
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		delete(t.subscribers, &f)
	}
}

// Compare returns a Change if header shows another history than seen: another cluster,
// or a store that has gone back; otherwise nil. A linearizable response to a request made
// after seen is not below its revision. Headers without a cluster ID prove nothing.
func Compare(seen Point, header *pb.ResponseHeader, linearizable bool) *Change {
	cluster, rev := header.GetClusterId(), header.GetRevision()
	if cluster == 0 || seen.Cluster == 0 {
		return nil
	}
	if cluster == seen.Cluster && (!linearizable || rev == 0 || rev >= seen.Revision) {
		return nil
	}
	return &Change{
		OldClusterID: seen.Cluster, OldRevision: seen.Revision,
		NewClusterID: cluster, NewRevision: rev,
	}
}
