package faults

import (
	"context"
	"errors"
	"io"
	"iter"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/lab/robustness"
	"github.com/quorate/quorate/lab/robustness/client"
	"github.com/quorate/quorate/lab/robustness/history"
	"github.com/quorate/quorate/lab/robustness/linear/model"
	"github.com/quorate/quorate/lab/robustness/report"
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

func (s *slow) Get(context.Context, string) (int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gets++; s.gets == 1 {
		return 0, errors.New("not yet")
	}
	return 0, nil
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

// observed returns a run with one row and new callers, who begin 100 ms later.
func observed(ctx context.Context, conn client.Connection, cfg Config) (*run, *newCallers) {
	r := newRun(cfg)
	r.env = &robustness.Env{Log: robustness.NewLog(io.Discard)}
	r.conn = conn
	r.beginRow("leader-kill")
	n := r.openNewCallers(ctx, 7)
	time.Sleep(100 * time.Millisecond)
	n.begin(r.addLeader("m1", "m2"))
	return r, n
}

func TestNewCallersReportTheirSuccess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &slow{events: make(chan string, 10)}
		r, n := observed(t.Context(), client.Connection{Store: s, Watcher: s}, Config{Callers: 2, CallTimeout: time.Second})
		time.Sleep(time.Second)
		n.finish()

		after := func(last time.Duration) report.Resumption {
			return report.Resumption{Callers: 2, Last: report.Duration(last * time.Millisecond)}
		}
		assert.Equal(t, []report.Leader{{
			At: report.Duration(100 * time.Millisecond), Leader: "m1", Reporter: "m2", Resumed: [3]report.Resumption{
				report.NewGets:   after(5), // one of them had to try twice
				report.NewPuts:   after(35),
				report.NewEvents: after(75), // the second is delivered by another watch
			},
		}}, r.rec.Rows[0].Leaders)
		require.Len(t, s.watches, 2)
		assert.EqualValues(t, 7, s.watches[0].StartRevision)
		assert.EqualValues(t, 8, s.watches[1].StartRevision, "which goes on where the first ended")
	})
}

func TestNewCallersEndWithTheRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newMemory()
		store.before = func(ctx context.Context, _ model.Kind, _ string) error { <-ctx.Done(); return ctx.Err() }
		r, n := observed(t.Context(), store.connection(), Config{Callers: 3, CallTimeout: time.Minute})
		time.Sleep(time.Second)
		n.finish()
		assert.Equal(t, 1100*time.Millisecond, r.env.Now())
		assert.Zero(t, r.rec.Rows[0].Leaders[0].Resumed)
	})
}
