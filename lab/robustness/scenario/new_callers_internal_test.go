package scenario

import (
	"context"
	"errors"
	"iter"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/lab/robustness/client"
	"github.com/quorate/quorate/lab/robustness/history"
	"github.com/quorate/quorate/lab/robustness/measure"
)

// slow is a store and a watcher that carry out puts 30 ms after they are sent, and events
// 20 ms later. The first call of each kind fails at once, and the first watch after one
// event.
type slow struct {
	client.Store
	mu         sync.Mutex
	gets, puts int
	watches    []history.WatchRequest
	events     chan string
}

func (s *slow) Get(context.Context, string, bool) (client.Answer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gets++; s.gets == 1 {
		return client.Answer{}, errors.New("not yet")
	}
	return client.Answer{}, nil
}

func (s *slow) Put(_ context.Context, key, _ string) (int64, error) {
	s.mu.Lock()
	s.puts++
	first := s.puts == 1
	s.mu.Unlock()
	if first {
		return 0, errors.New("not yet")
	}
	time.Sleep(30 * time.Millisecond)
	s.events <- key
	return 0, nil
}

func (s *slow) Watch(ctx context.Context, req history.WatchRequest) iter.Seq[history.WatchResponse] {
	s.mu.Lock()
	s.watches = append(s.watches, req)
	revision := req.StartRevision
	first := len(s.watches) == 1
	s.mu.Unlock()
	return func(yield func(history.WatchResponse) bool) {
		for {
			select {
			case <-ctx.Done():
				return
			case key := <-s.events:
				time.Sleep(20 * time.Millisecond)
				e := history.Event{KeyValue: history.KeyValue{Key: key, ModRevision: revision}}
				revision++
				if !yield(history.WatchResponse{Events: []history.Event{e}}) || first {
					return
				}
			}
		}
	}
}

func TestNewCallersReportTheirSuccess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &slow{events: make(chan string, 10)}
		r := &run{cfg: Config{Callers: 2, CallTimeout: time.Second, Seed: 5}}
		began := time.Now()
		r.began.Store(&began)
		n := r.openNewCallers(t.Context(), client.Services{Store: s, Watcher: s}, 7)
		r.meter.Begin("leader-kill", 0)
		time.Sleep(100 * time.Millisecond)
		since := r.now()
		r.meter.Lead(since, "m1", "m2")
		n.begin(since)
		time.Sleep(time.Second)
		n.finish()

		m := r.meter.Rows(r.now())[0].Moments[0]
		after := func(last time.Duration) measure.Resumption {
			return measure.Resumption{Callers: 2, Last: last * time.Millisecond}
		}
		assert.Equal(t, after(5), m.NewGets, "one of them had to try twice")
		assert.Equal(t, after(35), m.NewPuts)
		assert.Equal(t, after(75), m.NewEvents, "the second is delivered by another watch")
		require.Len(t, s.watches, 2)
		assert.EqualValues(t, 7, s.watches[0].StartRevision)
		assert.EqualValues(t, 8, s.watches[1].StartRevision, "which goes on where the first ended")
	})
}

func TestNewCallersEndWithTheRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hung := &hung{}
		r := &run{cfg: Config{Callers: 3, CallTimeout: time.Minute}}
		began := time.Now()
		r.began.Store(&began)
		n := r.openNewCallers(t.Context(), client.Services{Store: hung}, 1)
		r.meter.Begin("leader-kill", 0)
		r.meter.Lead(0, "m1", "m2")
		n.begin(0)
		time.Sleep(time.Second)
		n.finish()
		assert.Equal(t, time.Second, time.Since(began))
		assert.Zero(t, r.meter.Rows(r.now())[0].Moments[0].NewPuts)
	})
}

// hung is a store that never answers.
type hung struct{ client.Store }

func (hung) Get(ctx context.Context, _ string, _ bool) (client.Answer, error) {
	<-ctx.Done()
	return client.Answer{}, ctx.Err()
}

func (hung) Put(ctx context.Context, _, _ string) (int64, error) {
	<-ctx.Done()
	return 0, ctx.Err()
}
