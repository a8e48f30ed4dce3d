package leasing

import (
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"google.golang.org/protobuf/proto"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/internal/clienttest"
	"github.com/quorate/quorate/clientv3/internal/semantics"
	"github.com/quorate/quorate/clientv3/mock/fakeetcd"
)

func newTestKV(t *testing.T) (*fakeetcd.Cluster, *clientv3.Client, *kv) {
	t.Helper()
	cluster, client := clienttest.StartClient(t, 1)
	k, closeKV, err := NewKV(client, "_leasing/")
	require.NoError(t, err)
	t.Cleanup(closeKV)
	return cluster, client, k.(*kv)
}

func (c *cache) setClock(now func() time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = now
}

// The lease expires while the owner looks up the key: after finding it and before returning it. Then another client owns
// and writes the key.
func TestLeaseEndsDuringGet(t *testing.T) {
	cluster, client, owner := newTestKV(t)
	clienttest.Put(t, cluster, "k", "old")
	for range 2 {
		clienttest.Get(t, owner, "k")
	}
	var asked int
	owner.cache.setClock(func() time.Time {
		asked++
		if asked == 1 { // between the lookup and the first reading of the clock
			clienttest.Must(client.Put(t.Context(), "k", "new"))
		}
		return time.Now().Add(time.Minute)
	})
	resp := clienttest.Get(t, owner, "k")
	require.NotZero(t, asked)
	require.Equal(t, "new", string(resp.Kvs[0].Value))

	resp2 := clienttest.Must(owner.Txn(t.Context()).Then(clientv3.OpGet("k")).Commit())
	require.Equal(t, "new", string(resp2.Responses[0].GetResponseRange().Kvs[0].Value))
}

func TestWithin(t *testing.T) {
	const ttl = 10 * time.Second
	for name, tt := range map[string]struct {
		monotonic, wall time.Duration
		want            bool
	}{
		"at once":           {0, 0, true},
		"before the margin": {9899 * time.Millisecond, 9899 * time.Millisecond, true},
		"in the margin":     {9900 * time.Millisecond, 9900 * time.Millisecond, false},
		"suspended":         {time.Second, time.Hour, false},
		"wall set back":     {time.Hour, time.Second, false},
		"wall set far back": {time.Second, -time.Hour, true},
	} {
		require.Equal(t, tt.want, within(ttl, tt.monotonic, tt.wall), name)
	}
}

func TestObserveKeepsTheNewest(t *testing.T) {
	c := newCache("m/")
	for _, rev := range []int64{5, 10, 7} {
		c.observe(&pb.ResponseHeader{Revision: rev})
	}
	require.Equal(t, int64(10), c.header.Revision)
}

// What is acquired across a gap is not owned, and a session knows nothing of a history before it: the cluster may have changed.
func TestGapsAndSessionsForget(t *testing.T) {
	c, s := newCache("m/"), &leaseSession{lease: 1, aliveAt: func(time.Time) bool { return true }}
	c.start(s)
	c.resync(nil, 1)
	a := c.beginAcquire("k")
	c.suspend()
	require.False(t, c.insert(a, nil, 5))
	c.observe(&pb.ResponseHeader{Revision: 5})
	c.start(s)
	require.Zero(t, c.seen())
}

func TestLatestLeasingKeyIsReleased(t *testing.T) {
	q := releaseQueue{pending: map[string]int64{}, more: make(chan struct{}, 1)}
	q.add(leasingKey{"m/k", 7}, leasingKey{"m/k", 5})
	require.Equal(t, []leasingKey{{"m/k", 7}}, q.take())
}

// A caller may do with a response what it likes.
func TestResponsesBelongToTheirCallers(t *testing.T) {
	cluster, _, owner := newTestKV(t)
	var headers []*pb.ResponseHeader
	put := clienttest.Must(owner.Put(t.Context(), "k", "v"))
	headers = append(headers, put.Header)
	for range 2 { // from the server, and from memory
		get := clienttest.Get(t, owner, "k")
		headers = append(headers, get.Header)
	}
	get := clienttest.Get(t, owner, "other", clientv3.WithPrefix())
	txn := clienttest.Must(owner.Txn(t.Context()).Then(clientv3.OpPut("other", "v")).Commit())
	for _, h := range append(headers, get.Header, txn.Header) {
		h.Revision = 1 << 40
	}
	get = clienttest.Get(t, owner, "k")
	require.Equal(t, cluster.Revision(), get.Header.Revision)
}

func TestKeyBackoff(t *testing.T) {
	c := newKeyBackoff()
	now := time.Unix(100, 0)
	c.add("b", now)
	now = now.Add(keyBackoffTime / 2)
	c.add("b", now)
	require.True(t, c.has("b", now.Add(keyBackoffTime-1)), "its second time has not passed")
	require.False(t, c.has("b", now.Add(keyBackoffTime)))
	require.False(t, c.has("c", now))
	for i := range 100_000 { // 2000 at a time
		c.add(strconv.Itoa(i), now.Add(time.Duration(i)*time.Millisecond))
	}
	require.Less(t, len(c.until), 5000)
	require.True(t, c.has("99000", now.Add(100*time.Second)), "its time has not passed")
}

func TestSpans(t *testing.T) {
	k := &kv{prefix: "m/"}
	put := func(key string) clientv3.Op { return clientv3.OpPut(key, "") }
	del := clientv3.OpDelete
	keys := func(key, end string) semantics.Range { return semantics.Range{Key: key, End: end} }
	all := span{Range: keys("m/", "m0"), exclusive: true}
	for name, tt := range map[string]struct {
		op   clientv3.Op
		want []span
	}{
		"one key":                       {put("k"), []span{{Range: keys("m/k", "")}}},
		"range":                         {del("a", clientv3.WithRange("c")), []span{{Range: keys("m/a", "m/c")}}},
		"prefix":                        {del("a/", clientv3.WithPrefix()), []span{{Range: keys("m/a/", "m/a0")}}},
		"from key, behind the prefix":   {del("n", clientv3.WithFromKey()), []span{{Range: keys("m/n", "m0")}}},
		"from key, before the prefix":   {del("a", clientv3.WithFromKey()), []span{all}},
		"everything":                    {del("", clientv3.WithPrefix()), []span{all}},
		"range that ends at the prefix": {del("a", clientv3.WithRange("m/")), []span{{Range: keys("m/a", "m/m/")}}},
		"range that ends in the prefix": {del("a", clientv3.WithRange("m/b")), []span{all}},
		"range that begins in it":       {del("m/b", clientv3.WithRange("z")), []span{all}},
		"range that begins at its end":  {del("m0", clientv3.WithRange("z")), []span{{Range: keys("m/m0", "m/z")}}},
		"get":                           {clientv3.OpGet("k"), nil},
		"txn, both branches, each once": {clientv3.OpTxn(nil, []clientv3.Op{put("a"), del("b")}, []clientv3.Op{put("a")}), []span{{Range: keys("m/a", "")}, {Range: keys("m/b", "")}}},
		"txn in a txn, and what it reads": {
			clientv3.OpTxn(nil, []clientv3.Op{clientv3.OpTxn(nil, nil, []clientv3.Op{put("a"), clientv3.OpGet("x")})}, nil),
			[]span{{Range: keys("m/a", "")}},
		},
	} {
		require.Equal(t, tt.want, k.spansOf(tt.op), name)
	}
}

// A delete of a range that is blocked by another client's leasing key, which two spans list: its guard passes this client's
// keys, but none of the other's.
func TestReleaseOwned(t *testing.T) {
	for foreign, floor := range map[int64]int64{3: 0, 7: 5} {
		c := newCache("m/")
		c.start(&leaseSession{lease: 1})
		c.entries["a"] = &entry{key: "a", rev: 5}
		w := c.beginWrite([]span{{Range: semantics.Range{Key: "m/a", End: "m/c"}}, {Range: semantics.Range{Key: "m/b"}}})
		b := &mvccpb.KeyValue{Key: []byte("m/b"), CreateRevision: foreign, Lease: 2}
		blocking := func(keys ...*mvccpb.KeyValue) *pb.ResponseOp {
			return &pb.ResponseOp{Response: &pb.ResponseOp_ResponseRange{ResponseRange: &pb.RangeResponse{Kvs: keys}}}
		}
		own, others := c.releaseOwned(w, &clientv3.TxnResponse{Responses: []*pb.ResponseOp{
			blocking(&mvccpb.KeyValue{Key: []byte("m/a"), CreateRevision: 5, Lease: 1}, b), blocking(b),
		}})
		require.Empty(t, own)
		require.Equal(t, []leasingKey{{"m/b", foreign}}, others)
		require.Equal(t, floor, w.spans[0].floor)
		require.NotNil(t, c.readableLocked("a"))
	}
}

// For every get of one key the cache returns the server's response.
func TestCacheAnswersLikeTheServer(t *testing.T) {
	t.Parallel()
	cluster, client, owner := newTestKV(t)
	for range 3 {
		clienttest.Put(t, cluster, "there", "value")
	}
	for _, key := range []string{"there", "absent"} {
		clienttest.Get(t, owner, key)
	}
	random := rand.New(rand.NewPCG(1, 2))
	for range 500 {
		op := randomGet(random)
		want, wantErr := client.Do(t.Context(), op)
		before := cluster.Count("Range") + cluster.Count("Txn")
		got, err := owner.Do(t.Context(), op)
		require.Equal(t, wantErr, err)
		require.Equal(t, before, cluster.Count("Range")+cluster.Count("Txn"))
		require.True(t, proto.Equal((*pb.RangeResponse)(want.Get()), (*pb.RangeResponse)(got.Get())),
			"%+v\nserver %v\nmemory %v", op, want.Get(), got.Get())

		cmps := randomCmps(random)
		wantTxn := clienttest.Must(client.Txn(t.Context()).If(cmps...).Then(op).Else(op, op).Commit())
		before = cluster.Count("Txn")
		gotTxn := clienttest.Must(owner.Txn(t.Context()).If(cmps...).Then(op).Else(op, op).Commit())
		require.Equal(t, before, cluster.Count("Txn"))
		require.True(t, proto.Equal((*pb.TxnResponse)(wantTxn), (*pb.TxnResponse)(gotTxn)),
			"%v\nserver %v\nmemory %v", cmps, wantTxn, gotTxn)
	}
}

func randomKey(random *rand.Rand) string { return []string{"there", "absent"}[random.IntN(2)] }

func randomGet(random *rand.Rand) clientv3.Op {
	all := []clientv3.OpOption{
		clientv3.WithKeysOnly(), clientv3.WithCountOnly(), clientv3.WithSerializable(), clientv3.WithLimit(1),
		clientv3.WithSort(clientv3.SortByValue, clientv3.SortDescend),
		clientv3.WithMinModRev(random.Int64N(6)), clientv3.WithMaxModRev(random.Int64N(6)),
		clientv3.WithMinCreateRev(random.Int64N(6)), clientv3.WithMaxCreateRev(random.Int64N(6)),
	}
	random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return clientv3.OpGet(randomKey(random), all[:random.IntN(4)]...)
}

func randomCmps(random *rand.Rand) []clientv3.Cmp {
	cmps := make([]clientv3.Cmp, random.IntN(3))
	for i := range cmps {
		key, relation := randomKey(random), []string{"=", "!=", "<", ">"}[random.IntN(4)]
		n := random.Int64N(6)
		switch random.IntN(5) {
		case 0:
			cmps[i] = clientv3.Compare(clientv3.Value(key), relation, []string{"", "value", "z"}[random.IntN(3)])
		case 1:
			cmps[i] = clientv3.Compare(clientv3.Version(key), relation, n)
		case 2:
			cmps[i] = clientv3.Compare(clientv3.CreateRevision(key), relation, n)
		case 3:
			cmps[i] = clientv3.Compare(clientv3.ModRevision(key), relation, n)
		default:
			cmps[i] = clientv3.Compare(clientv3.LeaseValue(key), relation, n)
		}
	}
	return cmps
}

// A KV that owns the keys returns the same responses as a plain client.
func TestResponsesAreThoseOfPlainCalls(t *testing.T) {
	clienttest.RequirePlainResponses(t, func(t *testing.T, _ *fakeetcd.Cluster, client *clientv3.Client) (clientv3.KV, func()) {
		k, closeKV, err := NewKV(client, "_leasing/")
		require.NoError(t, err)
		t.Cleanup(closeKV)
		return k, func() {
			time.Sleep(time.Minute) // it leaves alone what it has released
			for _, key := range []string{"a0", "a1", "a2", "b"} {
				clienttest.Get(t, k, key)
			}
		}
	})
}
