package cache_test

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/clientv3/cache"
	"github.com/quorate/quorate/clientv3/internal/clienttest"
)

// TestMetrics compares the metrics with the counters, each of which is one.
func TestMetrics(t *testing.T) {
	_, client := clienttest.StartClient(t, 1)
	c := newCache(t, client, cache.Config{Prefixes: []string{"a/"}})
	awaitServing(t, c, "a/")
	all := c.Metrics()
	assert.Len(t, all, reflect.TypeFor[cache.Stats]().NumField()+1, "and the age")
	values := make(map[string]float64)
	for _, m := range all {
		values[m.Name] += m.Value
	}
	s := c.Stats()
	assert.InDelta(t, s.Hits+s.Misses, values["quorate.cache.gets"], 0)
	assert.InDelta(t, s.Loads, values["quorate.cache.loads"], 0)

	in, err := cache.NewInformer(c, cache.InformerConfig[string]{
		Decode: func(_, value []byte) (string, error) { return string(value), nil },
	})
	require.NoError(t, err)
	defer in.Close()
	assert.Len(t, in.Metrics(), reflect.TypeFor[cache.InformerStats]().NumField()-1, "without the revision")
}
