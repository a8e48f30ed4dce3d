package cache

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/internal/clienttest"
)

// TestRevisionOfAnInformer has an informer take an earlier change while a snapshot is published. Its revision is never above
// that of its objects.
func TestRevisionOfAnInformer(t *testing.T) {
	cluster := clienttest.Start(t, 1)
	clienttest.Put(t, cluster, "a/1", "old")
	client := clienttest.Connect(t, cluster)
	c := clienttest.Must(New(client, Config{Prefixes: []string{"a/"}}))
	t.Cleanup(c.Close)
	in := clienttest.Must(NewInformer(c, InformerConfig[string]{Decode: func(_, value []byte) (string, error) { return string(value), nil }}))
	require.NoError(t, in.WaitSynced(t.Context()))

	v := c.views[0]
	v.mu.Lock()
	before := v.snap.Load()
	next := &snapshot{tree: before.tree.Clone(), rev: before.rev + 1, header: before.header}
	set(next.tree, &mvccpb.KeyValue{Key: []byte("a/1"), Value: []byte("new"), ModRevision: next.rev})
	v.snap.Store(next)
	in.feed.noteLocked(change{keys: []string{"a/0"}})
	for range 50 {
		time.Sleep(time.Millisecond) // time to go wrong
		if in.Stats().Revision == next.rev {
			break
		}
	}
	reached := in.Stats().Revision
	in.feed.noteLocked(change{keys: []string{"a/1"}})
	v.mu.Unlock()
	require.Equal(t, before.rev, reached)
	require.Eventually(t, func() bool { return in.Stats().Revision == next.rev }, time.Minute, time.Millisecond)
	o, _ := in.Get("a/1")
	require.Equal(t, "new", o.Value)
}

// TestProgressWakesNoRead repeats responses of the watch that prove nothing new.
func TestProgressWakesNoRead(t *testing.T) {
	v := newView(&Cache{}, "a/")
	v.setWatchDoubt(nil)
	changed := v.awaitChange()
	v.setWatchDoubt(nil)
	select {
	case <-changed:
		require.Fail(t, "nothing has changed")
	default:
	}
	v.setWatchDoubt(errUnproven)
	<-changed
}

// TestWatchesOfAnEarlierHistory do not join the window of a later one, and end. What was compacted before is forgotten. Without a
// snapshot they learn of the end of their history, too. A watch that begins before the next list is of the later history.
func TestWatchesOfAnEarlierHistory(t *testing.T) {
	v := newView(&Cache{}, "a/")
	w := v.window
	w.kept, w.lossless = true, true
	list := func(history, rev int64) {
		header := &pb.ResponseHeader{ClusterId: 1, Revision: rev}
		w.note(change{next: &snapshot{rev: rev, header: header, history: history}, resync: &Resynced{}})
	}
	list(1, 900)
	w.compactedAt(800)
	l := &localWatch{v: v, ctx: t.Context(), from: 901}
	_, ok := w.join(l)
	require.True(t, ok)
	list(2, 500)
	_, do := w.next(l)
	require.Equal(t, stepEnd, do)
	_, ok = w.join(l)
	require.True(t, ok, "one that the server has begun to serve in the later history ends here")
	l.from = 400
	_, ok = w.join(l)
	require.False(t, ok, "the server ends it")
	require.Zero(t, w.compacted)

	l.local = true
	changed := &clientv3.ClusterChangedError{}
	v.abandon(changed)
	require.NoError(t, v.dropped, "a load goes on")
	require.Equal(t, changed, l.err)

	begun := &localWatch{v: v, ctx: t.Context(), from: 511} // by what the server has sent meanwhile
	w.join(begun)
	list(3, 500)
	_, ok = w.join(begun)
	require.True(t, ok && begun.local)
}

// TestKeysOfOthers change, and wake no informer.
func TestKeysOfOthers(t *testing.T) {
	f := newFeed("a/b/")
	f.all = false
	f.noteLocked(change{keys: []string{"a/c/1"}})
	require.Empty(t, f.wake)
	f.noteLocked(change{keys: []string{"a/c/1", "a/b/1"}})
	require.Len(t, f.wake, 1)
	require.Equal(t, []string{"a/b/1"}, f.keys)
}
