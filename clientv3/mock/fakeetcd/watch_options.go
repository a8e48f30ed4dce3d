package fakeetcd

import (
	"cmp"
	"fmt"
	"time"
)

// Defaults of an etcd server.
const (
	// defaultFragmentBytes is --max-request-bytes plus 512 KiB of overhead.
	defaultFragmentBytes = maxRecvBytes
	// defaultBatchRevisions is a constant of the server.
	defaultBatchRevisions = 1000
)

// WatchOptions configures how the members serve watches. The zero value is etcd's
// default, except that progress is sent only on request.
type WatchOptions struct {
	// FragmentBytes is the size from which a response is fragmented, for watches
	// with fragment set. The default is 2 MiB: etcd's --max-request-bytes of 1.5
	// MiB plus 512 KiB. A fragment has at least one event, however large.
	FragmentBytes int

	// BatchRevisions bounds the revisions in one response to a watch that starts in
	// the past. The default is 1000. Between two responses the stream may serve its
	// other watches and requests; there is no pause, while etcd pauses for up to
	// 100 ms. A watch that has caught up gets each revision in a separate response.
	BatchRevisions int

	// ProgressInterval is the time between progress notifications of a watch with
	// progress_notify; a notification is skipped if there were events since the
	// last one. The default, 0, means never; etcd's is 10 minutes plus up to 10 %.
	ProgressInterval time.Duration

	// Kine makes the members serve watches like kine, the server of k3s: they
	// refuse a client's watch ID, count IDs over all streams, always send the
	// previous value, answer progress requests even without a watch, and send
	// headers without cluster and member ID.
	Kine bool
}

// SetWatchOptions sets the options of watch streams opened from now on. It fails if
// a number is negative.
func (c *Cluster) SetWatchOptions(o WatchOptions) error {
	if o.FragmentBytes < 0 || o.BatchRevisions < 0 || o.ProgressInterval < 0 {
		return fmt.Errorf("fakeetcd: %+v has a negative number: 0 is the default", o)
	}
	o.FragmentBytes = cmp.Or(o.FragmentBytes, defaultFragmentBytes)
	o.BatchRevisions = cmp.Or(o.BatchRevisions, defaultBatchRevisions)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.watchOptions = o
	return nil
}
