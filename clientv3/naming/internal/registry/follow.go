package registry

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/internal/pause"
	"github.com/quorate/quorate/retry"
)

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
