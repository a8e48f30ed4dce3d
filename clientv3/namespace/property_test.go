package namespace_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/internal/clienttest"
	"github.com/quorate/quorate/clientv3/internal/optxn"
	"github.com/quorate/quorate/clientv3/mock/fakeetcd"
	"github.com/quorate/quorate/clientv3/namespace"
)

// TestNamespaceIsAStore carries out random operations in a namespace and in a store
// that has no other keys. Responses, errors and events must be the same.
func TestNamespaceIsAStore(t *testing.T) {
	const operations = 300
	for i, prefix := range []string{"ns/", "n", "\x00", "a\xff", "\xff", "\xff\xff", "a", ""} {
		t.Run(fmt.Sprintf("%q", prefix), func(t *testing.T) {
			t.Parallel()
			cluster, c := clienttest.StartClient(t, 1)
			_, model := clienttest.StartClient(t, 1)
			kv := namespace.NewKV(c, prefix)
			g := generator{rand.New(rand.NewPCG(uint64(i), 1))}
			writeAround(t, cluster, model, prefix)
			for n := range operations {
				op, otherwise := g.op(levels), g.oneIn(8)
				got, gotErr := carryOut(t, kv, op, otherwise)
				want, wantErr := carryOut(t, model, op, otherwise)
				require.Equal(t, wantErr, gotErr, "operation %d, %+v", n, op)
				if !proto.Equal(want, got) {
					t.Fatalf("operation %d, %+v:\n%s", n, op, cmp.Diff(want, got, protocmp.Transform()))
				}
			}
			require.Equal(t, history(t, model), history(t, namespace.NewWatcher(c, prefix)))
			requireAroundUnchanged(t, c, prefix)
		})
	}
}

// writeAround writes keys close to the namespace, and brings the model to the same
// revision.
func writeAround(t *testing.T, cluster *fakeetcd.Cluster, model *clientv3.Client, prefix string) {
	if prefix == "" {
		return
	}
	around := []string{prefix, prefix[:len(prefix)-1] + "!", "\x00\x00", "a", "b", "zzz", "\xff\x00", "\xfe", "\xff"}
	for _, key := range around {
		if len(key) > len(prefix) && key[:len(prefix)] == prefix {
			key = prefix // would be inside
		}
		for range 2 {
			clienttest.Put(t, cluster, key, "outside")
		}
		_, err := model.Put(t.Context(), "around", "")
		require.NoError(t, err)
		clienttest.Must(model.Delete(t.Context(), "around"))
	}
}

// requireAroundUnchanged checks that no operation in the namespace has changed a key outside of it.
func requireAroundUnchanged(t *testing.T, c *clientv3.Client, prefix string) {
	resp := clienttest.Must(c.Get(t.Context(), "", clientv3.WithPrefix()))
	left := 0
	for _, kv := range resp.Kvs {
		if len(kv.Key) > len(prefix) && string(kv.Key[:len(prefix)]) == prefix {
			continue
		}
		require.Equal(t, "outside", string(kv.Value), "%q", kv.Key)
		require.Zero(t, kv.Version%2, "%q", kv.Key) // each is written twice, some again
		left++
	}
	require.True(t, left > 0 || prefix == "", "no key is outside")
}

// carryOut returns the response as a message. A get is a GetStream and a transaction a Txn if that is asked for.
func carryOut(t *testing.T, kv clientv3.KV, op clientv3.Op, otherwise bool) (proto.Message, error) {
	if cmps, thenOps, elseOps := op.Txn(); op.IsTxn() && otherwise {
		resp, err := kv.Txn(t.Context()).If(cmps...).Then(thenOps...).Else(elseOps...).Commit()
		if err != nil {
			return nil, err
		}
		return (*pb.TxnResponse)(resp), nil
	}
	if op.IsGet() && otherwise {
		s, err := kv.GetStream(t.Context(), string(op.KeyBytes()), func(o *clientv3.Op) { *o = op })
		if err != nil {
			return nil, err
		}
		resp, err := clientv3.GetStreamToGetResponse(s)
		if err != nil {
			return nil, err
		}
		return (*pb.RangeResponse)(resp), nil
	}
	resp, err := kv.Do(t.Context(), op)
	if err != nil {
		return nil, err
	}
	return optxn.Response(resp), nil
}

// history returns all events until the watch reports progress.
func history(t *testing.T, w clientv3.Watcher) []string {
	var events []string
	watch := w.Watch(t.Context(), "", clientv3.WithPrefix(), clientv3.WithRev(1), clientv3.WithPrevKV(), clientv3.WithProgressNotify())
	require.NoError(t, w.RequestProgress(t.Context()))
	for resp := range watch {
		require.NoError(t, resp.Err())
		if resp.IsProgressNotify() {
			break
		}
		for _, event := range resp.Events {
			if key := string(event.Kv.Key); key != "around" {
				events = append(events, fmt.Sprintf("%v %q %q %d was %q %q", event.Type, key, event.Kv.Value,
					event.Kv.ModRevision, event.GetPrevKv().GetKey(), event.GetPrevKv().GetValue()))
			}
		}
	}
	return events
}

// levels is how deep transactions are nested.
const levels = 2

// generator makes operations on few keys, so that they meet.
type generator struct{ *rand.Rand }

func (g generator) oneIn(n int) bool { return g.IntN(n) == 0 }

func (g generator) key() string {
	const alphabet = "\x00ab\xff"
	if g.oneIn(30) {
		return "" // which is an error
	}
	key := make([]byte, 1+g.IntN(2))
	for i := range key {
		key[i] = alphabet[g.IntN(len(alphabet))]
	}
	return string(key)
}

// ranges returns the options for a range.
func (g generator) ranges() []clientv3.OpOption {
	switch g.IntN(5) {
	case 0:
		return []clientv3.OpOption{clientv3.WithPrefix()}
	case 1:
		return []clientv3.OpOption{clientv3.WithFromKey()}
	case 2:
		return []clientv3.OpOption{clientv3.WithRange(g.key())}
	default:
		return nil
	}
}

func (g generator) op(depth int) clientv3.Op {
	switch g.IntN(6) {
	case 0, 1:
		return g.get()
	case 2, 3:
		return g.put()
	case 4:
		return g.delete(depth == levels)
	default:
		if depth == 0 {
			return g.get()
		}
		return clientv3.OpTxn(g.cmps(), g.ops(depth-1), g.ops(depth-1))
	}
}

// delete returns a delete, of a range without an end only outside of transactions:
// within one, etcd does not notice when such a range has a key that is also put, and
// does notice it in a namespace, where the range has an end.
func (g generator) delete(endless bool) clientv3.Op {
	var opts []clientv3.OpOption
	switch {
	case endless:
		opts = g.ranges()
	case g.oneIn(2):
		opts = append(opts, clientv3.WithRange("b"+g.key()))
	}
	if g.oneIn(2) {
		opts = append(opts, clientv3.WithPrevKV())
	}
	return clientv3.OpDelete(g.key(), opts...)
}

func (g generator) get() clientv3.Op {
	opts := g.ranges()
	for _, opt := range []clientv3.OpOption{
		clientv3.WithLimit(int64(g.IntN(3))), clientv3.WithKeysOnly(), clientv3.WithCountOnly(), clientv3.WithSerializable(),
		clientv3.WithSort(clientv3.SortByKey, clientv3.SortDescend), clientv3.WithSort(clientv3.SortByValue, clientv3.SortAscend),
		clientv3.WithMinModRev(int64(g.IntN(30))), clientv3.WithRev(int64(20 + g.IntN(30))),
	} {
		if g.oneIn(6) {
			opts = append(opts, opt)
		}
	}
	return clientv3.OpGet(g.key(), opts...)
}

func (g generator) put() clientv3.Op {
	var opts []clientv3.OpOption
	if g.oneIn(2) {
		opts = append(opts, clientv3.WithPrevKV())
	}
	return clientv3.OpPut(g.key(), fmt.Sprint(g.IntN(100)), opts...)
}

func (g generator) ops(depth int) []clientv3.Op {
	ops := make([]clientv3.Op, g.IntN(4))
	for i := range ops {
		ops[i] = g.op(depth)
	}
	return ops
}

func (g generator) cmps() []clientv3.Cmp {
	cmps := make([]clientv3.Cmp, g.IntN(3))
	for i := range cmps {
		key := g.key()
		cmp := clientv3.Compare(clientv3.Version(key), []string{"=", "<", ">", "!="}[g.IntN(4)], g.IntN(3))
		if g.oneIn(2) {
			cmp = clientv3.Compare(clientv3.Value(key), []string{"=", "<", ">", "!="}[g.IntN(4)], fmt.Sprint(g.IntN(100)))
		}
		if key != "" { // with a range it would do in a namespace
			cmp = g.over(cmp)
		}
		cmps[i] = cmp
	}
	return cmps
}

// over returns a comparison of a range, or of one key.
func (g generator) over(cmp clientv3.Cmp) clientv3.Cmp {
	switch g.IntN(5) {
	case 0:
		return cmp.WithPrefix()
	case 1:
		return cmp.WithRange("\x00")
	case 2:
		return cmp.WithRange(g.key())
	default:
		return cmp
	}
}
