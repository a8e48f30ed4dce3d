package prometheus

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/observe/introspect"
)

// The registry keeps nothing of closed clients and channels. A channel that connects again is back.
func TestClosedClientsAreNotKept(t *testing.T) {
	o, err := New(prometheus.NewPedanticRegistry(), Options{Client: "orders"})
	require.NoError(t, err)
	detach, detachOther := o.Attach(new(introspect.Channels)), o.Attach(new(introspect.Channels))
	for range 2 {
		o.EndpointsSet([]string{"a"})
		require.Contains(t, o.shared.observers, o)
		o.EndpointsSet(nil)
		require.Empty(t, o.shared.observers)
	}
	detach()
	detach()
	require.Contains(t, o.shared.attached, "orders")
	detachOther()
	require.Empty(t, o.shared.attached)
}
