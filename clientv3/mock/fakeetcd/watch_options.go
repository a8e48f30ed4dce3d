package fakeetcd

import (
	"fmt"
	"time"
)

// What an etcd server does by default.
const (
	// defaultFragmentBytes is --max-request-bytes, and 512 KiB for what
	// surrounds a request.
	defaultFragmentBytes = maxRecvBytes
	// defaultBatchRevisions is a constant of the server.
	defaultBatchRevisions = 1000
)

// WatchOptions say how the members serve watches. The zero value is what etcd
// does by default, except that progress is notified only on request.
type WatchOptions struct {
	// FragmentBytes is the size from which a response is divided, of a watch
	// that asked for that. The default is 2 MiB: etcd's --max-request-bytes of
	// 1.5 MiB and 512 KiB more. A fragment has at least one event, however large.
	FragmentBytes int

	// BatchRevisions bounds the revisions in one response to a watch that
	// starts in the past. The default is 1000. Between two responses the stream
	// may serve its other watches and requests; there is no pause, where etcd
	// makes one of up to 100 ms. A watch that has caught up gets every revision
	// in a response of its own.
	BatchRevisions int

	// ProgressInterval is the time between progress notifications of a watch
	// that asked for them, each left out if there were events since the last.
	// The default, 0, is never; etcd's is 10 minutes and up to a tenth more.
	ProgressInterval time.Duration

	// Proxy makes the members serve watches as etcd's grpc-proxy does: they
	// ignore the watch ID that a client chooses and count from 0 on each stream,
	// ignore requests for progress and for fragments, and give no reason when
	// the range is empty. Creates that come within a few milliseconds of each
	// other are answered in reverse order; a real proxy does so by chance.
	Proxy bool

	// Kine makes the members serve watches as kine does, the server of k3s: they
	// refuse a watch ID that a client chooses, count IDs over all streams, send
	// the previous value unasked, answer a request for progress also when there is
	// no watch, and name neither cluster nor member in headers.
	Kine bool
}

// SetWatchOptions changes how watch streams are served that are opened from
// now on. It fails if a number is negative.
func (c *Cluster) SetWatchOptions(o WatchOptions) error {
	if o.FragmentBytes < 0 || o.BatchRevisions < 0 || o.ProgressInterval < 0 {
		return fmt.Errorf("fakeetcd: %+v has a negative number: 0 is the default", o)
	}
	if o.FragmentBytes == 0 {
		o.FragmentBytes = defaultFragmentBytes
	}
	if o.BatchRevisions == 0 {
		o.BatchRevisions = defaultBatchRevisions
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.watchOptions = o
	return nil
}

func (c *Cluster) currentWatchOptions() WatchOptions {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.watchOptions
}
