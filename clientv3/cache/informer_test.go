package cache_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/cache"
	"github.com/quorate/quorate/clientv3/internal/clienttest"
	"github.com/quorate/quorate/clientv3/mock/fakeetcd"
)

var errBad = errors.New("bad value")

func decodeString(_, value []byte) (string, error) {
	if string(value) == "bad" {
		return "", errBad
	}
	return string(value), nil
}

// describe returns a change as text.
func describe(ch cache.Change[string]) string {
	value := func(o *cache.Object[string]) string {
		if o == nil {
			return "-"
		}
		return o.Value
	}
	if ch.Key == "" {
		return ch.Type.String()
	}
	return fmt.Sprintf("%v %s %s→%s", ch.Type, ch.Key, value(ch.Old), value(ch.New))
}

func newInformer(t *testing.T, c *cache.Cache, cfg cache.InformerConfig[string]) *cache.Informer[string] {
	t.Helper()
	cfg.Decode = decodeString
	in := clienttest.Must(cache.NewInformer(c, cfg))
	t.Cleanup(in.Close)
	require.NoError(t, in.WaitSynced(clienttest.Within(t)))
	require.True(t, in.HasSynced())
	return in
}

// changesOf returns the changes that a handler receives.
func changesOf(t *testing.T, in *cache.Informer[string]) <-chan string {
	changes := make(chan string, 1000)
	t.Cleanup(in.AddHandler(func(ch cache.Change[string]) { changes <- describe(ch) }))
	return changes
}

func requireChanges(t *testing.T, changes <-chan string, want ...string) {
	t.Helper()
	for _, w := range want {
		select {
		case got := <-changes:
			require.Equal(t, w, got)
		case <-time.After(testTimeout):
			require.Fail(t, "no change is delivered", "not %q", w)
		}
	}
}

func TestInformer(t *testing.T) {
	cluster, client := clienttest.StartClient(t, 1)
	clienttest.Put(t, cluster, "a/1", "x")
	clienttest.Put(t, cluster, "a/2", "y")
	c := newCache(t, client, cache.Config{Prefixes: []string{"a/"}})
	in := newInformer(t, c, cache.InformerConfig[string]{
		Indexes: map[string]func(string, string) []string{"letters": func(_, v string) []string { return strings.Split(v, "") }},
	})
	changes := changesOf(t, in)
	requireChanges(t, changes, "added a/1 -→x", "added a/2 -→y", "synced")
	clienttest.Put(t, cluster, "a/1", "xy")
	requireChanges(t, changes, "updated a/1 x→xy")
	require.Len(t, clienttest.Must(in.ByIndex("letters", "y")), 2)
	clienttest.Must(client.Delete(clienttest.Within(t), "a/1"))
	requireChanges(t, changes, "deleted a/1 xy→-")
	clienttest.Put(t, cluster, "a/3", "z")
	requireChanges(t, changes, "added a/3 -→z")
	require.Len(t, clienttest.Must(in.ByIndex("letters", "y")), 1)
	_, err := in.ByIndex("numbers", "y")
	require.ErrorContains(t, err, "numbers")
	o, ok := in.Get("a/3")
	require.True(t, ok)
	require.Equal(t, cluster.Revision(), o.ModRevision)
	require.Len(t, in.List(), 2)
	later := changesOf(t, in)
	requireChanges(t, later, "added a/2 -→y", "added a/3 -→z", "synced")
	require.Equal(t, 2, in.Stats().Objects)
}

// TestPartsOfAnInformer uses an informer of a longer prefix than the cache's, a handler and an iteration of a part of the keys, and
// an index in order. An informer of another prefix is refused.
func TestPartsOfAnInformer(t *testing.T) {
	cluster, client := clienttest.StartClient(t, 1)
	for _, key := range []string{"a/c/1", "a/b/2", "a/b/1"} {
		clienttest.Put(t, cluster, key, "v")
	}
	c := newCache(t, client, cache.Config{Prefixes: []string{"a/"}})
	narrow := newInformer(t, c, cache.InformerConfig[string]{Prefix: "a/b/"})
	part := changesOf(t, narrow)
	in := newInformer(t, c, cache.InformerConfig[string]{
		Indexes: map[string]func(string, string) []string{"value": func(_, v string) []string { return []string{v} }},
	})
	changes := make(chan string, 10)
	t.Cleanup(in.AddPrefixHandler("a/b/", func(ch cache.Change[string]) { changes <- describe(ch) }))
	for _, ch := range []<-chan string{part, changes} {
		requireChanges(t, ch, "added a/b/1 -→v", "added a/b/2 -→v", "synced")
	}
	require.NoError(t, narrow.WaitForRevision(clienttest.Within(t), clienttest.Put(t, cluster, "a/c/1", "w")))
	clienttest.Put(t, cluster, "a/b/2", "w")
	for _, ch := range []<-chan string{part, changes} {
		requireChanges(t, ch, "updated a/b/2 v→w")
	}
	var keys []string
	for key, o := range in.All("a/b/") {
		require.Equal(t, key, o.Key)
		keys = append(keys, key)
	}
	require.Equal(t, []string{"a/b/1", "a/b/2"}, keys)
	for range in.All("") {
		break
	}
	found := clienttest.Must(in.ByIndex("value", "w"))
	require.Equal(t, "a/b/2", found[0].Key)
	require.Equal(t, "a/c/1", found[1].Key)

	_, err := cache.NewInformer(c, cache.InformerConfig[string]{Prefix: "b", Decode: decodeString})
	require.ErrorContains(t, err, `"b"`)
	_, err = cache.NewInformer(c, cache.InformerConfig[string]{})
	require.ErrorContains(t, err, "Decode")
}

// TestAValueThatCannotBeDecoded leaves the object as it was.
func TestAValueThatCannotBeDecoded(t *testing.T) {
	cluster, client := clienttest.StartClient(t, 1)
	clienttest.Put(t, cluster, "a/1", "bad")
	clienttest.Put(t, cluster, "a/2", "v")
	c := newCache(t, client, cache.Config{Prefixes: []string{"a/"}})
	failed := make(chan string, 10)
	in := newInformer(t, c, cache.InformerConfig[string]{
		OnDecodeError: func(key string, rev int64, err error) { failed <- fmt.Sprint(key, " ", rev, " ", err) },
	})
	changes := changesOf(t, in)
	requireChanges(t, changes, "added a/2 -→v", "synced")
	require.Equal(t, "a/1 2 bad value", <-failed)
	clienttest.Put(t, cluster, "a/2", "bad")
	require.Equal(t, "a/2 4 bad value", <-failed)
	o, ok := in.Get("a/2")
	require.True(t, ok)
	require.Equal(t, "v", o.Value)
	clienttest.Put(t, cluster, "a/2", "w")
	requireChanges(t, changes, "updated a/2 v→w")
	require.EqualValues(t, 2, in.Stats().DecodeErrors)
}

// TestASlowHandler uses a slow handler. It delays no other, and receives the latest state of the keys that it missed.
func TestASlowHandler(t *testing.T) {
	const puts = 1000
	cluster, client := clienttest.StartClient(t, 1)
	clienttest.Put(t, cluster, "a/1", "first")
	c := newCache(t, client, cache.Config{Prefixes: []string{"a/"}})
	in := newInformer(t, c, cache.InformerConfig[string]{})
	quick := changesOf(t, in)
	requireChanges(t, quick, "added a/1 -→first", "synced")
	release, changes := make(chan struct{}), make(chan string, 10)
	remove := in.AddHandler(func(ch cache.Change[string]) {
		changes <- describe(ch)
		<-release
	})
	requireChanges(t, changes, "added a/1 -→first")
	for i := range puts {
		clienttest.Put(t, cluster, "a/1", fmt.Sprint(i))
	}
	clienttest.Put(t, cluster, "a/2", "gone before it is delivered")
	clienttest.Must(client.Delete(clienttest.Within(t), "a/2"))
	clienttest.Put(t, cluster, "a/3", "last")
	for got := ""; got != "added a/3 -→last"; {
		got = <-quick
	}
	require.LessOrEqual(t, in.Stats().Pending, 4)
	close(release)
	requireChanges(t, changes, "synced", fmt.Sprintf("updated a/1 first→%d", puts-1), "added a/3 -→last")
	remove()
	clienttest.Put(t, cluster, "a/3", "no handler receives it")
	requireChanges(t, quick, "updated a/3 last→no handler receives it")
	require.Empty(t, changes)
}

// TestAnInformerBeforeItsCache makes both before there is a server.
func TestAnInformerBeforeItsCache(t *testing.T) {
	cluster, client := clienttest.StartClient(t, 1)
	clienttest.Put(t, cluster, "a/1", "v")
	cluster.Member(0).Stop()
	c := newUnsynced(t, client, cache.Config{Prefixes: []string{"a/"}})
	in := clienttest.Must(cache.NewInformer(c, cache.InformerConfig[string]{Decode: decodeString}))
	t.Cleanup(in.Close)
	changes := changesOf(t, in)
	require.False(t, in.HasSynced())
	require.Error(t, in.WaitSynced(clienttest.Ended(t)))
	cluster.Member(0).Start()
	requireChanges(t, changes, "added a/1 -→v", "synced")
	clienttest.Must(client.Put(clienttest.Within(t), "a/1", "w", clientv3.WithPrevKV()))
	requireChanges(t, changes, "updated a/1 v→w")
}

// TestARelistOvertakesWhatWaits relists while a handler is busy, and changes an object that has a pending change.
func TestARelistOvertakesWhatWaits(t *testing.T) {
	cluster, client := clienttest.StartClient(t, 1)
	for i := range 10 {
		clienttest.Put(t, cluster, fmt.Sprintf("a/%d", i), "v")
	}
	c := newCache(t, client, cache.Config{Prefixes: []string{"a/"}})
	in := newInformer(t, c, cache.InformerConfig[string]{})
	quick := changesOf(t, in)
	busy, release, changes := make(chan struct{}), make(chan struct{}), make(chan string, 100)
	t.Cleanup(in.AddHandler(func(ch cache.Change[string]) {
		if ch.Key == "a/0" && ch.Type == cache.Updated {
			close(busy)
			<-release
			return
		}
		changes <- describe(ch)
	}))
	for range 10 {
		<-changes
	}
	requireChanges(t, changes, "synced")
	clienttest.Put(t, cluster, "a/0", "w")
	<-busy
	clienttest.Put(t, cluster, "a/5", "w")
	for range 2 {
		missRevisions(t, cluster, func() { clienttest.Put(t, cluster, "a/5", "x") })
		for got := ""; got != "relisted"; {
			got = <-quick
		}
	}
	clienttest.Put(t, cluster, "a/6", "last")
	for got := ""; got != "updated a/6 v→last"; {
		got = <-quick
	}
	close(release)
	requireChanges(t, changes, "relisted", "updated a/5 v→x", "updated a/6 v→last")
	require.Empty(t, changes)
}

// TestWhatIsLoadedAnewAndUnchanged drops and reloads a prefix. Handlers get only the changes.
func TestWhatIsLoadedAnewAndUnchanged(t *testing.T) {
	clienttest.InBubble(t, 1, func(t *testing.T, cluster *fakeetcd.Cluster, client *clientv3.Client) {
		for i := range 10 {
			clienttest.Put(t, cluster, fmt.Sprintf("a/%d", i), "v")
		}
		decoded := 0
		c := newCache(t, client, cache.Config{Prefixes: []string{"a/"}})
		in, err := cache.NewInformer(c, cache.InformerConfig[string]{Decode: func(_, value []byte) (string, error) {
			decoded++
			return string(value), nil
		}})
		require.NoError(t, err)
		changes := changesOf(t, in)
		synctest.Wait()
		for range 10 {
			<-changes
		}
		requireChanges(t, changes, "synced")
		refusal := cluster.On("Range", func(call *fakeetcd.Call) { call.Answer(nil, errDenied) })
		_, err = c.Get(t.Context(), "a/1")
		require.Equal(t, denied, err)
		clienttest.Put(t, cluster, "a/3", "w")
		clienttest.Must(client.Delete(t.Context(), "a/4"))
		refusal.Remove()
		time.Sleep(time.Minute)
		synctest.Wait()
		requireChanges(t, changes, "relisted", "updated a/3 v→w", "deleted a/4 v→-")
		require.Empty(t, changes)
		require.Equal(t, 11, decoded)
		c.Close()
	})
}

// TestCloseInAHandler closes a cache in the handler of an informer over it.
func TestCloseInAHandler(t *testing.T) {
	clienttest.InBubble(t, 1, func(t *testing.T, cluster *fakeetcd.Cluster, client *clientv3.Client) {
		clienttest.Put(t, cluster, "a/1", "v")
		c := clienttest.Must(cache.New(client, cache.Config{Prefixes: []string{"a/"}}))
		in := clienttest.Must(cache.NewInformer(c, cache.InformerConfig[string]{Decode: decodeString}))
		closed := false
		in.AddHandler(func(ch cache.Change[string]) {
			if ch.Type == cache.Synced {
				c.Close()
				closed = true
			}
		})
		synctest.Wait()
		require.True(t, closed)
		in.Close()
		c.Close()
	})
}
