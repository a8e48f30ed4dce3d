package channel

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/clientv3/mock/fakeetcd"
	"github.com/quorate/quorate/health"
	"github.com/quorate/quorate/observe"
)

// blockingObserver blocks on a state, until released.
type blockingObserver struct {
	observe.None
	release chan struct{}
	changes []health.Change
}

func (o *blockingObserver) StateChanged(c health.Change) {
	<-o.release
	o.changes = append(o.changes, c)
}

// An observer that blocks does not delay a verdict, and receives all changes in order later.
func TestObserverThatBlocks(t *testing.T) {
	o := &blockingObserver{}
	inBubble(t, func(cfg *Config) {
		o.release = make(chan struct{})
		cfg.Observer = o
	}, func(t *testing.T, cluster *fakeetcd.Cluster, c *Channel, _ *witness) {
		frozen := cluster.Member(0)
		for _, method := range []string{"Range", "Put", "Status", "Check"} {
			holdOn(cluster, frozen, method)
		}
		for start := time.Now(); time.Since(start) < 2*time.Second; time.Sleep(5 * time.Millisecond) {
			require.NoError(t, readK(t, c))
		}
		for _, s := range c.Statuses() {
			assert.Equal(t, s.Endpoint != frozen.Endpoint(), s.State.Usable(), "%s is %v", s.Endpoint, s.State)
		}

		close(o.release)
		synctest.Wait()
		state := make(map[string]health.State)
		for _, change := range o.changes {
			assert.Equal(t, state[change.Endpoint], change.From)
			state[change.Endpoint] = change.To
		}
		assert.False(t, state[frozen.Endpoint()].Usable())
	})
}
