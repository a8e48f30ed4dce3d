package balancer_test

import (
	"context"
	"sync"
	"time"
)

// load makes calls continuously.
type load struct {
	stop     context.CancelFunc
	wg       sync.WaitGroup
	mu       sync.Mutex
	outcomes []outcome
}

// load makes calls with a deadline of timeout, with pauses between them.
func (c *client) load(callers int, pause, timeout time.Duration, write bool) *load {
	ctx, cancel := context.WithCancel(context.Background())
	l := &load{stop: cancel}
	c.t.Cleanup(func() { l.end() })
	for i := range callers {
		l.wg.Go(func() {
			time.Sleep(pause * time.Duration(i) / time.Duration(callers))
			for ctx.Err() == nil {
				call, end := context.WithTimeout(context.Background(), timeout)
				o := c.call(call, attempt{write: write})
				end()
				l.mu.Lock()
				l.outcomes = append(l.outcomes, o)
				l.mu.Unlock()
				time.Sleep(pause)
			}
		})
	}
	return l
}

// end stops the load, and returns the outcomes of its calls.
func (l *load) end() []outcome {
	l.stop()
	l.wg.Wait()
	return l.outcomes
}

func failed(outcomes []outcome) (n int) {
	for _, o := range outcomes {
		if o.err != nil {
			n++
		}
	}
	return n
}
