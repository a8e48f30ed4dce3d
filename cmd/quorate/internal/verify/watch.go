package verify

import (
	"context"
	"errors"
	"fmt"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/lab/robustness/client"
	"github.com/quorate/quorate/lab/robustness/client/quorate"
	"github.com/quorate/quorate/lab/robustness/history"
	"github.com/quorate/quorate/lab/robustness/watchcheck"
)

// watch is a watch of all keys, with the responses it received.
type watch struct {
	history.Watch
	reached chan int64 // the revision of the latest response; closed when the watch has ended
}

// openWatches begins to watch, from before the first operation.
func (r *run) openWatches(ctx context.Context) {
	ctx, r.endWatches = context.WithCancel(ctx)
	for id := range watches {
		w := &watch{reached: make(chan int64, 1)}
		r.watches = append(r.watches, w)
		r.watching.Go(func() {
			w.Watch = client.Read(ctx, quorate.Client{Client: r.cfg.Client}, r.watchRequest(id%2 == 0), r.now, func(response history.WatchResponse) {
				select {
				case <-w.reached:
				default:
				}
				w.reached <- response.Revision
			})
			w.ID = id
			close(w.reached)
		})
	}
}

func (r *run) watchRequest(previous bool) history.WatchRequest {
	return history.WatchRequest{Key: r.prefix, RangeEnd: clientv3.GetPrefixRangeEnd(r.prefix), StartRevision: r.start + 1, PrevKV: previous}
}

// settle writes a last key, and waits until every watch has delivered it. It returns its revision.
func (r *run) settle(ctx context.Context) (int64, error) {
	ctx, cancel := r.limited(ctx)
	defer cancel()
	last, err := r.cfg.Client.Put(ctx, r.prefix+"last", "", clientv3.WithLease(r.lease))
	if err != nil {
		return 0, fmt.Errorf("write the last key: %w", err)
	}
	for _, w := range r.watches {
		for reached, open := int64(0), true; open && reached < last.Header.Revision; {
			select {
			case reached, open = <-w.reached:
			case <-ctx.Done(): // the check finds what is missing
				open = false
			}
		}
	}
	return last.Header.Revision, nil
}

// checkWatches compares the responses of the watches with the history of the store.
func (r *run) checkWatches(events []history.Event, last int64) (watchcheck.Verdict, error) {
	ended := make([]history.Watch, len(r.watches))
	r.endWatches()
	r.watching.Wait()
	for i, w := range r.watches {
		ended[i] = w.Watch
	}
	return watchcheck.Check(watchcheck.Reference{Events: events, Through: last, Settled: last}, ended)
}

// replay reads the history up to a revision, by one more watch from its beginning.
func (r *run) replay(ctx context.Context, last int64) ([]history.Event, error) {
	ctx, cancel := r.limited(ctx)
	defer cancel()
	var events []history.Event
	for response := range (quorate.Client{Client: r.cfg.Client}).Watch(ctx, r.watchRequest(false)) {
		if response.IsTerminal() {
			return nil, fmt.Errorf("read the history of the store: %w", errors.Join(response.Err, errHistory))
		}
		events = append(events, response.Events...)
		if len(events) > 0 && events[len(events)-1].ModRevision >= last {
			return events, nil
		}
	}
	return nil, fmt.Errorf("read the history of the store: %w", errors.Join(context.Cause(ctx), errHistory))
}

var errHistory = errors.New("what the watches delivered cannot be checked")
