package health_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/health"
)

func TestUsersOfOneKeyShareAnEntry(t *testing.T) {
	table := health.NewTable()
	plain, secure := table.Acquire("", "a:1"), table.Acquire("a:1 with TLS", "a:1")
	assert.NotSame(t, plain, secure, "another key is another opinion")
	assert.Same(t, secure, table.Acquire("a:1 with TLS", "a:1"))
	assert.Same(t, plain, table.Acquire("a:1", "a:1"), "the name is the key for want of one")
	assert.Same(t, plain, table.Acquire("a:1", "another name"), "the first user names the endpoint")

	note(secure, health.Served)
	assert.Equal(t, health.Unknown, plain.Load().State)
	assert.Equal(t, "a:1", plain.Load().Endpoint)
	assert.Equal(t, "a:1", secure.Load().Endpoint)
}

func TestAllIsSortedByEndpoint(t *testing.T) {
	table := health.NewTable()
	assert.Empty(t, table.All())
	for _, endpoint := range []string{"c", "a", "b"} {
		table.Acquire("key of "+endpoint, endpoint)
	}
	note(table.Acquire("key of b", "b"), health.Refusing)
	all := table.All()
	require.Len(t, all, 3)
	for i, want := range []health.Status{{Endpoint: "a"}, {Endpoint: "b", State: health.NotServing}, {Endpoint: "c"}} {
		assert.Equal(t, want.Endpoint, all[i].Endpoint)
		assert.Equal(t, want.State, all[i].State)
	}
}

func TestLastReleaseForgetsTheEntry(t *testing.T) {
	table := health.NewTable()
	b, a := table.Acquire("", "b"), table.Acquire("", "a")
	again := table.Acquire("", "a")
	note(a, health.Served)
	a.Release()
	assert.Len(t, table.All(), 2, "somebody uses it")
	again.Release()
	require.Len(t, table.All(), 1)
	assert.Equal(t, "b", table.All()[0].Endpoint)

	fresh := table.Acquire("", "a")
	assert.NotSame(t, a, fresh)
	assert.Equal(t, health.Unknown, fresh.Load().State, "nothing is remembered")
	again.Release()
	assert.Len(t, table.All(), 2, "one Release too many of the old entry is none of the new one")
	note(a, health.Unresponsive)
	assert.Equal(t, health.Unknown, table.All()[0].State, "the old entry is in no table")

	b.Release()
	fresh.Release()
	assert.Empty(t, table.All())
}
