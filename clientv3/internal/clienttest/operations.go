package clienttest

import (
	"errors"
	"maps"
	"slices"
	"testing"
	"testing/synctest"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/internal/optxn"
	"github.com/quorate/quorate/clientv3/mock/fakeetcd"
)

// operations returns operations of all forms, on the keys a0, a1 and a2 with the values 0, 1 and 2.
func operations() map[string]clientv3.Op {
	type ops = []clientv3.Op
	a1Is := func(value string) []clientv3.Cmp {
		return []clientv3.Cmp{clientv3.Compare(clientv3.Value("a1"), "=", value)}
	}
	put, get, del, txn := clientv3.OpPut, clientv3.OpGet, clientv3.OpDelete, clientv3.OpTxn
	prefix, prev := clientv3.WithPrefix(), clientv3.WithPrevKV()
	return map[string]clientv3.Op{
		"put":                        put("a1", "new"),
		"put, previous":              put("a1", "new", prev),
		"put of a new key":           put("b", "new", prev),
		"put of the same value":      put("a1", "", clientv3.WithIgnoreValue()),
		"put of the value of no key": put("b", "", clientv3.WithIgnoreValue()),
		"put with no such lease":     put("a1", "new", clientv3.WithLease(4711)),
		"delete":                     del("a1"),
		"delete of nothing":          del("b"),
		"delete of a prefix":         del("a", prefix),
		"delete, previous":           del("a", prefix, prev),
		"get":                        get("a1"),
		"get of a prefix":            get("a", prefix, clientv3.WithMinCreateRev(3)),
		"txn":                        txn(a1Is("1"), ops{put("a1", "new", prev), del("a2"), del("b")}, nil),
		"txn, otherwise":             txn(a1Is("2"), ops{del("a1")}, ops{put("a1", "x"), get("a2")}),
		"txn, nothing to do":         txn(a1Is("2"), ops{del("a1")}, nil),
		"txn that reads":             txn(a1Is("2"), nil, ops{get("a1")}),
		"txn of nothing":             txn(nil, nil, nil),
		"txn without comparisons":    txn(nil, ops{put("a1", "x", prev), put("c", "x")}, ops{put("d", "x")}),
		"txn that reads before":      txn(nil, ops{get("a", prefix), put("a1", "x")}, nil),
		"txn that reads after":       txn(nil, ops{put("a1", "x"), get("a", prefix, clientv3.WithLimit(1))}, nil),
		"txn that reads serially":    txn(nil, ops{put("a1", "x"), get("a", prefix, clientv3.WithSerializable())}, nil),
		"txn that sorts":             txn(nil, ops{put("a1", "x"), get("a", prefix, clientv3.WithSort(clientv3.SortByValue, clientv3.SortDescend))}, nil),
		"txn at a revision":          txn(nil, ops{put("a1", "x"), get("a", prefix, clientv3.WithRev(2))}, nil),
		"nested without comparison":  txn(nil, ops{txn(nil, ops{get("a1"), put("a2", "x")}, nil), put("a1", "y")}, nil),
	}
}

// RequirePlainResponses executes operations of all forms with a client and with the KV that over returns for a client of
// another cluster, each on the same keys at the same revision. It compares the responses, without headers, the errors, and
// what both read afterwards. before is called before each operation of the KV, if it is not nil.
func RequirePlainResponses(t *testing.T, over func(*testing.T, *fakeetcd.Cluster, *clientv3.Client) (kv clientv3.KV, before func())) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		plainCluster, plain := StartClient(t, 1)
		cluster, client := StartClient(t, 3)
		kv, before := over(t, cluster, client)
		both := func(name string, op clientv3.Op) {
			synctest.Wait() // what the KV does by itself
			for plainCluster.Revision() < cluster.Revision() {
				Put(t, plainCluster, "filler", "")
			}
			want, wantErr := plain.Do(t.Context(), op)
			got, err := kv.Do(t.Context(), op)
			switch {
			case !errors.Is(err, wantErr):
				t.Fatalf("%s: want error %v, got %v", name, wantErr, err)
			case err == nil:
				requireSame(t, name, want, got)
			}
		}
		put, del := clientv3.OpPut, clientv3.OpDelete
		restore := clientv3.OpTxn(nil, []clientv3.Op{put("a0", "0"), put("a1", "1"), put("a2", "2"), del("b"), del("c"), del("d")}, nil)
		all := operations()
		for _, name := range slices.Sorted(maps.Keys(all)) {
			both("before "+name, restore)
			if before != nil {
				before()
			}
			both(name, all[name])
			for _, key := range []string{"a0", "a1", "a2", "b", "c", "d"} {
				both("after "+name, clientv3.OpGet(key))
			}
		}
	})
}

// requireSame compares responses, without headers: a KV may write keys of its own beside an operation.
func requireSame(t *testing.T, name string, want, got clientv3.OpResponse) {
	t.Helper()
	w, g := optxn.Response(want), optxn.Response(got)
	if header := g.GetHeader(); header.GetRevision() == 0 || header.GetClusterId() == 0 {
		t.Errorf("%s: the header is %v", name, header)
	}
	dropHeaders(w.ProtoReflect())
	dropHeaders(g.ProtoReflect())
	if !proto.Equal(w, g) {
		t.Errorf("%s:\nwant %v\ngot  %v", name, w, g)
	}
}

func dropHeaders(m protoreflect.Message) {
	m.Range(func(field protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case field.Name() == "header":
			m.Clear(field)
		case field.Message() == nil:
		case field.IsList():
			for i := range v.List().Len() {
				dropHeaders(v.List().Get(i).Message())
			}
		default:
			dropHeaders(v.Message())
		}
		return true
	})
}
