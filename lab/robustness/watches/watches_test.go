//go:build experiment

package watches

import (
	"context"
	"errors"
	"iter"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/cache"
	"github.com/quorate/quorate/lab/robustness"
	"github.com/quorate/quorate/lab/robustness/client/quorate"
	"github.com/quorate/quorate/lab/robustness/history"
	"github.com/quorate/quorate/lab/robustness/internal/soaktest"
	"github.com/quorate/quorate/lab/robustness/watchcheck"
)

// TestSoak is the short form of "quorate-lab soak".
func TestSoak(t *testing.T) {
	result, err := Config{Config: soaktest.Fixed(t)}.Run(t.Context())
	require.NoError(t, err)
	require.True(t, result.Verdict.OK(), "%v", result)
	t.Log("\n" + result.String())
}

// cachedEvents is so few that slow readers leave what the cache keeps, and come back.
const cachedEvents = 64

// cached has a client whose watches a cache of all keys serves.
type cached struct {
	quorate.Client

	cache *cache.Cache
	stats *cache.Stats
}

func (c *cached) Close() error {
	*c.stats = c.cache.Stats()
	c.cache.Close()
	return c.Client.Close()
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
		return []Client{&cached{quorate.Client{Client: client}, c, &stats}}, nil
	}
	result, err := Config{Config: soaktest.Fixed(t), connect: connect}.Run(t.Context())
	require.NoError(t, err)
	require.True(t, result.Verdict.OK(), "%v", result)
	t.Logf("%+v\n%v", stats, result)
}

// faulty is a client that changes some of what a correct one delivers. It may keep a
// response back, and give more than one for one.
type faulty struct {
	Client
	spoil func(n int64, r history.WatchResponse) []history.WatchResponse
	n     atomic.Int64 // responses with events so far, of all watches
	ended func()       // called after enough of them
}

// enough is how many responses show every mistake several times.
const enough = 1500

func (f *faulty) Watch(ctx context.Context, r history.WatchRequest) iter.Seq[history.WatchResponse] {
	responses := f.Client.Watch(ctx, r)
	return func(yield func(history.WatchResponse) bool) {
		for response := range responses {
			spoiled := []history.WatchResponse{response}
			if len(response.Events) > 0 {
				n := f.n.Add(1)
				if spoiled = f.spoil(n, response); n == enough {
					f.ended()
				}
			}
			for _, one := range spoiled {
				if !yield(one) {
					return
				}
			}
		}
	}
}

// nowAndThen changes one response in a hundred, in three ways in turn.
func nowAndThen(n int64, r history.WatchResponse) []history.WatchResponse {
	switch n % 300 {
	case 100:
		return nil
	case 200:
		return []history.WatchResponse{r, r}
	case 0:
		return []history.WatchResponse{r, {Revision: r.Revision, Canceled: true, Err: errors.New("enough")}}
	default:
		return []history.WatchResponse{r}
	}
}

// silent delivers nothing any more from some point on.
func silent(n int64, r history.WatchResponse) []history.WatchResponse {
	if n > 500 {
		return nil
	}
	return []history.WatchResponse{r}
}

// TestFaultyClientsAreFound puts something that breaks promises between the readers
// and a correct client.
func TestFaultyClientsAreFound(t *testing.T) {
	tests := []struct {
		name  string
		spoil func(int64, history.WatchResponse) []history.WatchResponse
		want  []watchcheck.Promise
	}{
		{"now and then", nowAndThen, []watchcheck.Promise{watchcheck.Reliable, watchcheck.Unique, watchcheck.Terminal}},
		{"silent", silent, []watchcheck.Promise{watchcheck.Reliable}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			result, err := Config{
				Config:        robustness.Config{Duration: 3 * time.Minute, Dir: t.TempDir()},
				settleTimeout: time.Second,
				connect: func(endpoints []string) ([]Client, error) {
					sound, err := quorate.Dial(clientv3.Config{Endpoints: endpoints})
					return []Client{&faulty{Client: quorate.Client{Client: sound}, spoil: tt.spoil, ended: cancel}}, err
				},
			}.Run(ctx)
			require.NoError(t, err)
			for _, p := range tt.want {
				assert.Positive(t, result.Verdict.Counts[p], "%s: %v", p, result)
			}
		})
	}
}
