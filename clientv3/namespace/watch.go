package namespace

import (
	"context"
	"sync"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/internal/optxn"
	"github.com/quorate/quorate/internal/pause"
)

type watcherPrefix struct {
	clientv3.Watcher
	scope scope

	// closing is closed by Close.
	closing chan struct{}

	// mu guards the start of relays against the wait for their end.
	mu     sync.Mutex
	relays sync.WaitGroup
}

// NewWatcher returns a Watcher of the keys of w that begin with prefix. It is like a
// Watcher of a store that has nothing but these keys, except that revisions and
// progress are those of w.
//
// A watch takes a goroutine, which ends when the watch does, when its context has
// ended, or with Close. Close closes w too, and with it the watches of others.
func NewWatcher(w clientv3.Watcher, prefix string) clientv3.Watcher {
	return &watcherPrefix{Watcher: w, scope: scope(prefix), closing: make(chan struct{})}
}

func (w *watcherPrefix) Watch(ctx context.Context, key string, opts ...clientv3.OpOption) clientv3.WatchChan {
	op := clientv3.OpWatch(key, opts...)
	if len(op.KeyBytes()) == 0 {
		op.WithKeyBytes(noEnd) // where the server begins, too
	}
	op = w.scope.keyed(op)
	in := w.Watcher.Watch(ctx, string(op.KeyBytes()), optxn.As(op))
	out := make(chan clientv3.WatchResponse, 1)
	w.begin(ctx, in, out)
	return out
}

// begin starts the relay between two channels. If in is closed from the outset, so is out
// when Watch returns.
func (w *watcherPrefix) begin(ctx context.Context, in clientv3.WatchChan, out chan clientv3.WatchResponse) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if pause.Closed(w.closing) || !w.takeFirst(in, out) {
		close(out)
		return
	}
	w.relays.Go(func() {
		defer close(out)
		w.relay(ctx, in, out)
	})
}

// takeFirst passes on the first response if there is one already, and reports
// whether there may be more.
func (w *watcherPrefix) takeFirst(in clientv3.WatchChan, out chan<- clientv3.WatchResponse) bool {
	select {
	case resp, open := <-in:
		if open {
			out <- w.response(resp)
		}
		return open
	default:
		return true
	}
}

func (w *watcherPrefix) relay(ctx context.Context, in clientv3.WatchChan, out chan<- clientv3.WatchResponse) {
	var resp clientv3.WatchResponse
	from, to := in, chan<- clientv3.WatchResponse(nil)
	for {
		select {
		case next, open := <-from:
			if !open {
				return
			}
			resp, from, to = w.response(next), nil, out
		case to <- resp:
			from, to = in, nil
		case <-ctx.Done():
			return
		case <-w.closing:
			return
		}
	}
}

func (w *watcherPrefix) response(resp clientv3.WatchResponse) clientv3.WatchResponse {
	resp.Events = w.scope.events(resp.Events)
	return resp
}

func (w *watcherPrefix) Close() error {
	err := w.Watcher.Close()
	w.mu.Lock()
	if !pause.Closed(w.closing) {
		close(w.closing)
	}
	w.mu.Unlock()
	w.relays.Wait()
	return err
}
