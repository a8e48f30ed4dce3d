package cases

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/quorate/quorate/lab/bench/client"
)

func TestAll(t *testing.T) {
	names := make(map[string]bool)
	for _, c := range All() {
		assert.False(t, names[c.Name], "two cases are called %s", c.Name)
		names[c.Name] = true
		assert.NotEmpty(t, c.About, c.Name)
		assert.NotEmpty(t, c.Metrics, c.Name)
		assert.NotNil(t, c.Run, c.Name)
		assert.Positive(t, c.Members, c.Name)
		assert.Positive(t, c.ShortSize, c.Name)
		assert.Less(t, c.ShortSize, c.Size, c.Name)
	}
}

// script is a watch that delivers what it holds and then ends.
type script [][]*mvccpb.Event

func (s *script) Next() ([]*mvccpb.Event, error) {
	if len(*s) == 0 {
		return nil, client.ErrClosed
	}
	next := (*s)[0]
	*s = (*s)[1:]
	return next, nil
}

func put(revision int64) *mvccpb.Event {
	return &mvccpb.Event{Kv: &mvccpb.KeyValue{Key: []byte("k"), ModRevision: revision}}
}

func TestReadPuts(t *testing.T) {
	deletion := put(6)
	deletion.Type = mvccpb.Event_DELETE
	tests := []struct {
		name     string
		watch    script
		revision int64
		wantErr  string
	}{
		{"one by one", script{{put(5)}, {put(6)}, {put(7)}}, 5, ""},
		{"together, after news without events", script{{}, {put(5), put(6), put(7)}}, 5, ""},
		{"wherever they begin", script{{put(9), put(10)}, {put(11)}}, 0, ""},
		{"missing first", script{{put(6)}}, 5, "in place of the put at revision 5"},
		{"gap", script{{put(5)}, {put(7)}}, 5, "in place of the put at revision 6"},
		{"twice", script{{put(5), put(5)}}, 5, "in place of the put at revision 6"},
		{"deletion", script{{put(5), deletion}}, 5, "in place of the put at revision 6"},
		{"end", script{{put(5)}}, 5, "2 events before the last: the client closed the channel"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := readPuts(&tt.watch, 3, tt.revision)
			if tt.wantErr == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, tt.wantErr)
			}
		})
	}
}

func TestExpect(t *testing.T) {
	require.NoError(t, expect(&script{{put(5)}}, "k", 5))
	for _, wrong := range []script{nil, {{}}, {{put(4)}}, {{put(5), put(6)}}} {
		require.Error(t, expect(&wrong, "k", 5))
	}
	require.Error(t, expect(&script{{put(5)}}, "other", 5))
}

// answers are renewals of a lease, -1 for those of a lease that has ended.
type answers int

func (a answers) Next() error { return nil }

func (a answers) Drain() (int, error) {
	if a < 0 {
		return 0, client.ErrClosed
	}
	return int(a), nil
}

func TestAllRenewed(t *testing.T) {
	require.NoError(t, allRenewed([]client.Renewals{answers(3), answers(4)}))
	require.ErrorContains(t, allRenewed([]client.Renewals{answers(3), answers(2)}), "lease 1 of 2 was renewed 2 times")
	require.ErrorIs(t, allRenewed([]client.Renewals{answers(-1)}), client.ErrClosed)
}

// counting is a client that counts the calls of Watch that are under way.
type counting struct {
	client.Client
	calls, at atomic.Int64
	all       chan struct{} // closed when so many are under way at the same time
	size      int64
}

func (c *counting) Watch(_ context.Context, key string, _ client.WatchOptions) client.Watch {
	c.calls.Add(1)
	if c.at.Add(1) == c.size {
		close(c.all)
	}
	<-c.all
	return &script{{&mvccpb.Event{Kv: &mvccpb.KeyValue{Key: []byte(key)}}}}
}

func TestCrewCallsAtTheSameTime(t *testing.T) {
	const size, n = 8, 20
	crew := assemble(size)
	defer crew.dismiss()
	c := &counting{all: make(chan struct{}), size: size}
	watches := make([]client.Watch, n)
	crew.watchAll(c, watches, func(i int) target { return target{ctx: t.Context(), key: key(i)} })
	assert.EqualValues(t, n, c.calls.Load())
	for i, w := range watches {
		require.NoError(t, expect(w, key(i), 0))
	}
}
