package clienttest

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/mock/fakeetcd"
)

// operations returns operations of all forms, on the keys a0, a1 and a2 with the values 0, 1 and 2.
func operations() map[string]clientv3.Op {
	type ops = []clientv3.Op
	is := func(key, value string) []clientv3.Cmp {
		return []clientv3.Cmp{clientv3.Compare(clientv3.Value(key), "=", value)}
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
		"txn":                        txn(is("a1", "1"), ops{put("a1", "new", prev), del("a2"), del("b")}, nil),
		"txn, otherwise":             txn(is("a1", "2"), ops{del("a1")}, ops{put("a1", "x"), get("a2")}),
		"txn, nothing to do":         txn(is("a1", "2"), ops{del("a1")}, nil),
		"txn that reads":             txn(is("a1", "2"), nil, ops{get("a1")}),
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

// RequirePlainResponses executes operations of all forms, each on clusters of its own, with a client and with the KV that over returns
// for another one. It compares the responses, without headers, the errors, and what both
// read afterwards.
func RequirePlainResponses(t *testing.T, over func(*testing.T, *fakeetcd.Cluster, *clientv3.Client) clientv3.KV) {
	t.Helper()
	for name, op := range operations() {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				plainCluster, plain := StartClient(t, 3)
				cluster, client := StartClient(t, 3)
				for i := range 3 {
					Put(t, plainCluster, fmt.Sprint("a", i), fmt.Sprint(i))
					Put(t, cluster, fmt.Sprint("a", i), fmt.Sprint(i))
				}
				kv := over(t, cluster, client)
				for plainCluster.Revision() < cluster.Revision() {
					Put(t, plainCluster, "filler", "")
				}
				want, wantErr := plain.Do(t.Context(), op)
				got, err := kv.Do(t.Context(), op)
				if !errors.Is(err, wantErr) || (err == nil) != (wantErr == nil) {
					t.Fatalf("want error %v, got %v", wantErr, err)
				}
				if err == nil {
					requireSame(t, want, got)
				}
				for _, key := range []string{"a0", "a1", "a2", "b", "c", "d"} {
					get := clientv3.OpGet(key)
					requireSame(t, Must(plain.Do(t.Context(), get)), Must(kv.Do(t.Context(), get)))
				}
			})
		})
	}
}

// requireSame compares responses, without headers: what writes nothing has no revision of its own without a lane.
func requireSame(t *testing.T, want, got clientv3.OpResponse) {
	t.Helper()
	w, _ := message(want)
	g, header := message(got)
	if header.GetRevision() == 0 || header.GetClusterId() == 0 {
		t.Errorf("the header is %v", header)
	}
	dropHeaders(w.ProtoReflect())
	dropHeaders(g.ProtoReflect())
	if !proto.Equal(w, g) {
		t.Errorf("want %v\ngot  %v", w, g)
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

// message returns the response that is set, and its header.
func message(r clientv3.OpResponse) (proto.Message, *pb.ResponseHeader) {
	switch {
	case r.Put() != nil:
		return (*pb.PutResponse)(r.Put()), r.Put().Header
	case r.Get() != nil:
		return (*pb.RangeResponse)(r.Get()), r.Get().Header
	case r.Del() != nil:
		return (*pb.DeleteRangeResponse)(r.Del()), r.Del().Header
	default:
		return (*pb.TxnResponse)(r.Txn()), r.Txn().Header
	}
}
