package load

import (
	"context"
	"sync"
)

// flight knows which calls are under way, in waves: settle begins a new wave and
// waits for the end of those before it.
type flight struct {
	mu    sync.Mutex
	waves []*wave // new calls are added to the last one
}

// wave is a set of calls.
type wave struct {
	calls  int
	closed bool          // gets no more calls
	done   chan struct{} // closed when closed and calls is 0
}

func (f *flight) init() { f.waves = []*wave{{done: make(chan struct{})}} }

// takeOff notes that a call begins; the function that it returns notes its end.
func (f *flight) takeOff() (landed func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	w := f.waves[len(f.waves)-1]
	w.calls++
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		w.calls--
		w.finish()
	}
}

func (w *wave) finish() {
	if w.closed && w.calls == 0 {
		close(w.done)
	}
}

// settle waits for the calls that began before it.
func (f *flight) settle(ctx context.Context) error {
	f.mu.Lock()
	last := f.waves[len(f.waves)-1]
	last.closed = true
	last.finish()
	before := f.waves
	f.waves = append(f.unfinished(), &wave{done: make(chan struct{})})
	f.mu.Unlock()
	for _, w := range before {
		select {
		case <-w.done:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// unfinished returns a new list of the waves that have not ended.
func (f *flight) unfinished() []*wave {
	var out []*wave
	for _, w := range f.waves {
		if w.calls > 0 {
			out = append(out, w)
		}
	}
	return out
}
