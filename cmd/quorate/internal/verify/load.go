package verify

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/lab/robustness/client"
	"github.com/quorate/quorate/lab/robustness/client/quorate"
	"github.com/quorate/quorate/lab/robustness/history"
	"github.com/quorate/quorate/lab/robustness/linear/model"
	"github.com/quorate/quorate/lab/robustness/watchcheck"
	"github.com/quorate/quorate/retry"
)

// load makes operations at the rate until the duration is over or ctx ends, and waits for those in
// flight, which lasting bounds.
func (r *run) load(ctx, lasting context.Context) {
	end := time.Now().Add(r.cfg.Duration)
	due := make(chan struct{})
	var wg sync.WaitGroup
	for number := range groups * clients {
		wg.Go(func() {
			for range due {
				r.operate(lasting, number)
			}
		})
	}
	tick := time.Tick(time.Second / time.Duration(r.cfg.Rate))
	for time.Now().Before(end) && ctx.Err() == nil {
		select {
		case <-tick:
			select { // while all clients are busy, an operation is left out
			case due <- struct{}{}:
			default:
			}
		case <-ctx.Done():
		}
	}
	close(due)
	wg.Wait()
}

// operate makes one operation on the keys of the client's group, and notes it.
func (r *run) operate(ctx context.Context, number int) {
	group := number % groups
	ctx, cancel := r.limited(ctx)
	defer cancel()
	kv := quorate.NewKV(r.cfg.Client.KV, clientv3.WithLease(r.lease))
	op, _ := client.Do(ctx, kv, r.keys(group), model.Operation{Client: number, Request: r.request()}, r.now)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.histories[group] = append(r.histories[group], op)
}

// request returns a random request.
func (r *run) request() model.Request {
	key, other := rand.IntN(model.Keys), rand.IntN(model.Keys)
	switch n := rand.IntN(100); {
	case n < 30:
		return model.Request{Kind: model.Get, Then: []model.Act{read(key)}}
	case n < 40:
		return model.Request{Kind: model.SerializableGet, Then: []model.Act{read(key)}}
	case n < 70:
		return model.Request{Kind: model.Put, Then: []model.Act{{Verb: model.Write, Key: key, Value: r.value(), Prev: true}}}
	case n < 80:
		return model.Request{Kind: model.Delete, Then: []model.Act{{Verb: model.Remove, Key: key, Prev: true}}}
	default:
		return model.Request{
			Kind: model.Txn, If: []model.Compare{{Key: key, Target: model.Version}}, // it is absent
			Then: []model.Act{{Verb: model.Write, Key: key, Value: r.value()}}, Else: []model.Act{read(key), read(other)},
		}
	}
}

func read(key int) model.Act { return model.Act{Verb: model.Read, Key: key} }

func (r *run) value() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.values++
	return fmt.Sprint("v", r.values)
}

// keys returns the keys of a group.
func (r *run) keys(group int) (keys [model.Keys]string) {
	for key := range keys {
		keys[key] = fmt.Sprintf("%s%d/%d", r.prefix, group, key)
	}
	return keys
}

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
	for retry.OutcomeOf(err) == retry.OutcomeUnknown && ctx.Err() == nil {
		last, err = r.cfg.Client.Put(ctx, r.prefix+"last", "", clientv3.WithLease(r.lease))
	}
	if err != nil {
		return 0, fmt.Errorf("write the last key: %w", err)
	}
	for _, w := range r.watches {
		for reached, open := int64(0), true; open && reached < last.Header.Revision; {
			select {
			case reached, open = <-w.reached:
			case <-ctx.Done():
				return 0, fmt.Errorf("wait for the watches: %w", ctx.Err())
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
