package lease

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
)

// Only a lease that becomes due without a stream makes the next stream open at once.
func TestDueLeasesWakeTheNextStream(t *testing.T) {
	for _, tt := range []struct {
		name  string
		wakes bool
		do    func(t *testing.T, e *Engine)
	}{
		{"nothing is due", false, func(*testing.T, *Engine) {}},
		{"a keepalive becomes due", true, func(*testing.T, *Engine) { time.Sleep(ttl / 5) }},
		{"a new lease", true, func(t *testing.T, e *Engine) {
			subscribe(t, e, t.Context(), 2, Subscriber{})
		}},
		{"one answer for a lease that is kept alive", true, func(t *testing.T, e *Engine) {
			subscribe(t, e, t.Context(), 1, Subscriber{Once: true})
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &fakeStreams{onNext: func(ctx context.Context, _ error) error { return wait(ctx, time.Minute) }}
				e, _ := startEngine(t, f)
				subscribe(t, e, t.Context(), 1, Subscriber{})
				time.Sleep(ttl / 7) // the next keepalive is due after a sixth of the TTL to a third
				f.last().broken <- errors.New("the stream broke")
				synctest.Wait()
				f.woken()
				tt.do(t, e)
				synctest.Wait()
				assert.Equal(t, tt.wakes, f.woken() > 0)
			})
		})
	}
}
