package store_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/cache"
	"github.com/quorate/quorate/clientv3/idempotent"
	"github.com/quorate/quorate/clientv3/internal/clienttest"
	"github.com/quorate/quorate/clientv3/leaderelection"
	"github.com/quorate/quorate/clientv3/leasing"
	"github.com/quorate/quorate/clientv3/mock/fakeetcd"
	"github.com/quorate/quorate/clientv3/namespace"
	. "github.com/quorate/quorate/clientv3/store"
	"github.com/quorate/quorate/retry"
)

// overKVs has each KV that a Store may be over.
var overKVs = map[string]func(t *testing.T, client *clientv3.Client, test func(kv clientv3.KV, w clientv3.Watcher)){
	"client": func(_ *testing.T, client *clientv3.Client, test func(clientv3.KV, clientv3.Watcher)) {
		test(client, client)
	},
	"cache": func(t *testing.T, client *clientv3.Client, test func(clientv3.KV, clientv3.Watcher)) {
		c := clienttest.Must(cache.New(client, cache.Config{Prefixes: []string{"configs/"}}))
		defer c.Close()
		require.NoError(t, c.WaitSynced(t.Context()))
		test(c, client)
	},
	"namespace": func(_ *testing.T, client *clientv3.Client, test func(clientv3.KV, clientv3.Watcher)) {
		test(namespace.NewKV(client.KV, "ns/"), namespace.NewWatcher(client.Watcher, "ns/"))
	},
	"idempotent": func(t *testing.T, client *clientv3.Client, test func(clientv3.KV, clientv3.Watcher)) {
		kv := clienttest.Must(idempotent.New(t.Context(), client, idempotent.Config{}))
		defer func() { assert.NoError(t, kv.Close()) }()
		test(kv, client)
	},
	"leasing": func(t *testing.T, client *clientv3.Client, test func(clientv3.KV, clientv3.Watcher)) {
		kv, done, err := leasing.NewKV(client, "_leasing/")
		require.NoError(t, err)
		defer done()
		test(kv, client)
	},
	"term": func(t *testing.T, client *clientv3.Client, test func(clientv3.KV, clientv3.Watcher)) {
		ctx, cancel := context.WithCancel(t.Context())
		require.NoError(t, leaderelection.Run(ctx, client, leaderelection.Config{Name: "leader"}, func(_ context.Context, term *leaderelection.Term) error {
			defer cancel()
			test(term.KV(), client)
			return nil
		}))
	},
}

func TestOverEveryKV(t *testing.T) {
	for name, over := range overKVs {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, _ *fakeetcd.Cluster, client *clientv3.Client, _ *Store[Config]) {
				over(t, client, func(kv clientv3.KV, w clientv3.Watcher) {
					useStore(t, New(kv, "configs/", asJSON, WithWatcher(w)), kv)
				})
			})
		})
	}
}

// useStore calls each method of a Store.
func useStore(t *testing.T, s *Store[Config], kv clientv3.KV) {
	ctx := t.Context()
	_, err := s.Get(ctx, "web")
	require.ErrorIs(t, err, ErrNotFound)
	rev := clienttest.Must(s.Create(ctx, "web", Config{1}))
	e := clienttest.Must(s.Get(ctx, "web"))
	require.Equal(t, Entry[Config]{Key: "web", Value: Config{1}, CreateRevision: rev, ModRevision: rev, Version: 1}, e)
	_, err = s.Create(ctx, "web", Config{7})
	require.ErrorIs(t, err, ErrExists)
	require.Equal(t, retry.OutcomeNotExecuted, retry.OutcomeOf(err))

	f := follow(ctx, t, s)
	f.put("web", 1)
	f.synced()
	updated := clienttest.Must(s.Update(ctx, "web", increment))
	f.put("web", 2)
	now := clienttest.Must(s.Get(ctx, "web"))
	require.Equal(t, now, updated)
	require.EqualValues(t, 2, now.Version)
	require.ErrorIs(t, s.DeleteUnmodified(ctx, e), ErrModified)
	clienttest.Must(s.Put(ctx, "db", Config{5}))
	f.put("db", 5)

	_, err = Txn(ctx, kv, func(tx *Tx) error {
		web, err := s.In(tx).Get("web")
		if err != nil {
			return err
		}
		s.In(tx).Delete("web")
		return s.In(tx).Put("db", Config{web.Replicas + 40})
	})
	require.NoError(t, err)
	got := map[string]int{}
	for e, err := range s.All(ctx) {
		require.NoError(t, err)
		got[e.Key] = e.Value.Replicas
	}
	require.Equal(t, map[string]int{"db": 42}, got)
	for range 2 { // both changes of one revision, in whatever order
		f.change()
	}
	db := clienttest.Must(s.Get(ctx, "db"))
	require.NoError(t, s.DeleteUnmodified(ctx, db))
	f.deleted("db")
	require.False(t, clienttest.Must(s.Delete(ctx, "db")))

	for i := range 300 {
		clienttest.Must(s.Put(ctx, fmt.Sprintf("%03d", i), Config{i}))
	}
	n := 0
	for e, err := range s.All(ctx) { // in two pages
		require.NoError(t, err)
		require.Equal(t, Config{n}, e.Value)
		n++
	}
	require.Equal(t, 300, n)
}

// TestTermThatIsOver refuses writes whose term has ended.
func TestTermThatIsOver(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *fakeetcd.Cluster, client *clientv3.Client, _ *Store[Config]) {
		overKVs["term"](t, client, func(kv clientv3.KV, w clientv3.Watcher) {
			s := New(kv, "configs/", asJSON, WithWatcher(w))
			clienttest.Must(s.Create(t.Context(), "web", Config{1}))
			clienttest.Must(client.Delete(t.Context(), "leader", clientv3.WithPrefix()))
			_, err := s.Update(t.Context(), "web", increment)
			require.ErrorAs(t, err, new(*leaderelection.TermEndedError))
			require.Equal(t, retry.OutcomeNotExecuted, retry.OutcomeOf(err))
			e := clienttest.Must(s.Get(t.Context(), "web"))
			require.Equal(t, Config{1}, e.Value)
		})
	})
}
