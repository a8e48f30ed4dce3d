package namespace

import (
	"context"
	"sync"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/internal/optxn"
)

type watcherPrefix struct {
	clientv3.Watcher
	scope scope

	ctx    context.Context // ends by Close
	cancel context.CancelFunc

	mu     sync.Mutex // no relay begins when ctx has ended
	relays sync.WaitGroup
}

// NewWatcher returns a Watcher of the keys of w that begin with prefix. It is like a
// Watcher of a store that has nothing but these keys, except that revisions and
// progress are those of w.
//
// A watch takes a goroutine, which ends when the watch does, when its context has
// ended, or with Close. Close closes w too, and with it the watches of others.
func NewWatcher(w clientv3.Watcher, prefix string) clientv3.Watcher {
	p := &watcherPrefix{Watcher: w, scope: scope(prefix)}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	return p
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

// begin starts the relay between two channels. A watch that never began is a closed
// channel from the outset, and out must not become one any later.
func (w *watcherPrefix) begin(ctx context.Context, in clientv3.WatchChan, out chan clientv3.WatchResponse) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ctx.Err() != nil || !w.takeFirst(in, out) {
		close(out)
		return
	}
	w.relays.Go(func() {
		defer close(out)
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(w.ctx, cancel)()
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
	for {
		var resp clientv3.WatchResponse
		var open bool
		select {
		case resp, open = <-in:
		case <-ctx.Done():
		}
		if !open {
			return
		}
		select {
		case out <- w.response(resp):
		case <-ctx.Done():
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
	w.cancel()
	w.mu.Unlock()
	w.relays.Wait()
	return err
}
