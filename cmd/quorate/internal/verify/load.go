package verify

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/lab/robustness/client"
	"github.com/quorate/quorate/lab/robustness/client/quorate"
	"github.com/quorate/quorate/lab/robustness/linear/model"
)

// load makes operations at the rate until the duration is over or ctx ends, and waits for those in
// flight, which lasting bounds.
func (r *run) load(ctx, lasting context.Context) {
	end := r.begin.Add(r.cfg.Duration)
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
