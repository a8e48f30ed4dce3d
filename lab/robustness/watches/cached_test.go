//go:build experiment

package watches

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/cache"
	"github.com/quorate/quorate/lab/robustness/client/quorate"
	"github.com/quorate/quorate/lab/robustness/internal/soaktest"
)

// cachedEvents is so few that slow readers leave what the cache keeps, and come back.
const cachedEvents = 64

// cached has a client whose watches a cache of all keys serves.
type cached struct {
	clientUnderTest

	cache *cache.Cache
	stats *cache.Stats
}

func (c *cached) Close() error {
	*c.stats = c.cache.Stats()
	c.cache.Close()
	return c.clientUnderTest.Close()
}

// TestSoakOfACache has the watches of a run share the one of a cache at the server.
func TestSoakOfACache(t *testing.T) {
	var stats cache.Stats
	connect := func(endpoints []string) ([]Client, error) {
		client, err := quorate.Dial(clientv3.Config{Endpoints: endpoints})
		if err != nil {
			return nil, err
		}
		c, err := cache.New(client, cache.Config{Prefixes: []string{""}, MaxEvents: cachedEvents})
		if err != nil {
			return nil, errors.Join(err, client.Close())
		}
		client.Watcher = c.Watcher()
		return []Client{&cached{clientUnderTest{client}, c, &stats}}, nil
	}
	result, err := Config{Config: soaktest.Fixed(t), connect: connect}.Run(t.Context())
	require.NoError(t, err)
	require.True(t, result.Verdict.OK(), "%v", result)
	t.Logf("%+v\n%v", stats, result)
}
