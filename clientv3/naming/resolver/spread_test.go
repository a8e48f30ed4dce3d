package resolver_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/clientv3/internal/clienttest"
	"github.com/quorate/quorate/clientv3/naming/resolver"
)

// Channels that use the first address, as gRPC's do by default, must not all use the same one, and
// a channel keeps its order when endpoints change.
func TestOrderOfAddresses(t *testing.T) {
	_, err := resolver.NewBuilder(nil)
	require.ErrorContains(t, err, "client")

	_, client, _ := clienttest.StartPair(t)
	b, err := resolver.NewBuilder(client)
	require.NoError(t, err)
	register(t, client, "svc", map[string]string{"a": "1", "b": "2", "c": "3"})
	firsts := map[string]bool{}
	for range 50 { // the probability that one of three is never the first is 3*(2/3)^50, 5 in a billion
		c, r := open(t, b, "etcd:///svc")
		firsts[c.state(t)[0]] = true
		r.Close()
	}
	require.Len(t, firsts, 3)

	c, r := open(t, b, "etcd:///svc")
	defer r.Close()
	before := c.state(t)
	for range 5 {
		register(t, client, "svc", map[string]string{"d": "4"})
		var with []string
		for _, addr := range c.state(t) {
			if addr != "4" {
				with = append(with, addr)
			}
		}
		require.Equal(t, before, with)
		register(t, client, "svc", map[string]string{"d": ""})
		require.Equal(t, before, c.state(t))
	}
}
