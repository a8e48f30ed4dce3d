package watch

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// chanSink is a Sink with a channel, as a caller of Watch has it. It counts its closes.
type chanSink struct {
	ch     chan Response
	left   chan struct{}
	closes atomic.Int32
}

func newChanSink() *chanSink {
	return &chanSink{ch: make(chan Response, 1), left: make(chan struct{})}
}

func (s *chanSink) Offer(r Response) bool {
	select {
	case s.ch <- r:
		return true
	default:
		return false
	}
}

func (s *chanSink) Put(r Response, stop <-chan struct{}) bool {
	select {
	case s.ch <- r:
		return true
	case <-s.left:
		return false
	case <-stop:
		return false
	}
}

func (s *chanSink) Close() {
	if s.closes.Add(1) == 1 {
		close(s.ch)
	}
}

// buffered is a buffer with its goroutine.
type buffered struct {
	buffer
	*chanSink
	stop   chan struct{}
	waited []time.Duration
	pumps  sync.WaitGroup
}

func newBuffered() *buffered {
	b := &buffered{chanSink: newChanSink(), stop: make(chan struct{})}
	b.sink, b.budget = b.chanSink, NewBudget(1<<20)
	return b
}

func (b *buffered) start() {
	b.pumps.Go(func() {
		b.deliver(b.stop, func(d time.Duration) { b.waited = append(b.waited, d) }, func() {})
	})
}

func numbered(n int64) Response { return Response{Header: at(n)} }

// rest reads until the sink is closed.
func (b *buffered) rest() []int64 {
	var got []int64
	for r := range b.ch {
		got = append(got, r.Header.Revision)
	}
	return got
}

func (b *buffered) isPumping() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.pumping
}

func TestBufferWaitsForASlowReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBuffered()
		for n := range int64(4) {
			b.push(numbered(n), b.start)
		}
		synctest.Wait()
		assert.Equal(t, 4*eventOverhead, b.held(), "the response in the channel counts, others wait behind it")
		assert.Equal(t, 1<<20-4*eventOverhead, b.budget.left(), "what one watch holds counts against all")
		for range 4 {
			time.Sleep(time.Second)
			<-b.ch
			synctest.Wait()
		}
		assert.Zero(t, b.held())
		assert.False(t, b.isPumping(), "an idle watch has no goroutine")
		assert.Equal(t, []time.Duration{time.Second, time.Second, time.Second}, b.waited)
		b.push(numbered(4), func() { t.Error("the buffer started a goroutine although there is room") })
		b.drop()
		assert.Equal(t, []int64{4}, b.rest())
	})
}

func TestTheLastResponseIsHeldUntilItIsTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBuffered()
		b.push(numbered(1), b.start)
		b.push(numbered(2), b.start)
		b.finish(numbered(3), b.start)
		b.push(numbered(4), b.start)
		time.Sleep(24 * time.Hour)
		assert.Zero(t, b.closes.Load())
		assert.Equal(t, []int64{1, 2, 3}, b.rest())
		synctest.Wait()
		assert.EqualValues(t, 1, b.closes.Load())
	})
}

func TestDropDiscardsWaitingResponses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBuffered()
		for n := range int64(4) {
			b.push(numbered(n), b.start)
		}
		synctest.Wait()
		b.drop()
		assert.Zero(t, b.held())
		assert.Zero(t, b.closes.Load(), "the goroutine still uses the sink")
		close(b.left)
		synctest.Wait()
		assert.EqualValues(t, 1, b.closes.Load())
		assert.Equal(t, []int64{0}, b.rest())
	})
}

// A buffer is filled, emptied and ended concurrently.
func TestBufferUnderContention(t *testing.T) {
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 1))
		pushes, leaves, drops := rng.Int64N(200), rng.IntN(3) == 0, rng.IntN(3) == 0
		b := newBuffered()
		var users sync.WaitGroup
		users.Go(func() {
			for n := range pushes {
				b.push(numbered(n), b.start)
				if n%16 == 0 {
					b.awaitRoom(4 * eventOverhead)
				}
			}
			b.finish(numbered(pushes), b.start)
		})
		if leaves {
			users.Go(func() { close(b.left); b.drop() })
		}
		if drops {
			users.Go(func() { close(b.stop); b.drop() })
		}
		got := b.rest()
		users.Wait()
		b.pumps.Wait()
		require.EqualValues(t, 1, b.closes.Load(), "seed %d", seed)
		require.False(t, b.isPumping(), "seed %d", seed)
		require.Zero(t, b.held(), "seed %d", seed)
		require.Equal(t, 1<<20, b.budget.left(), "seed %d", seed)
		for i, n := range got { // a caller that has cancelled reads no gap either
			require.EqualValues(t, i, n, "seed %d", seed)
		}
		if !leaves && !drops {
			require.Len(t, got, int(pushes)+1, "seed %d", seed)
		}
	}
}
