package namespace_test

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/internal/clienttest"
	"github.com/quorate/quorate/clientv3/namespace"
)

// TestRequests looks at what reaches the server.
func TestRequests(t *testing.T) {
	tests := []struct {
		name     string
		prefix   string
		op       clientv3.Op
		key, end string
	}{
		{"one key", "ns/", clientv3.OpGet("k"), "ns/k", ""},
		{"range", "ns/", clientv3.OpGet("a", clientv3.WithRange("c")), "ns/a", "ns/c"},
		{"range that is empty", "ns/", clientv3.OpGet("c", clientv3.WithRange("a")), "ns/c", "ns/a"},
		{"range to a key of zeros", "ns/", clientv3.OpGet("\x00", clientv3.WithRange("\x00\x00")), "ns/\x00", "ns/\x00\x00"},
		{"key prefix", "ns/", clientv3.OpGet("a", clientv3.WithPrefix()), "ns/a", "ns/b"},
		{"key prefix of 0xff", "ns/", clientv3.OpGet("\xff", clientv3.WithPrefix()), "ns/\xff", "ns0"},
		{"from key", "ns/", clientv3.OpGet("b", clientv3.WithFromKey()), "ns/b", "ns0"},
		{"all keys", "ns/", clientv3.OpGet("", clientv3.WithPrefix()), "ns/\x00", "ns0"},
		{"all keys from the first on", "ns/", clientv3.OpGet("", clientv3.WithFromKey()), "ns/\x00", "ns0"},
		{"prefix that ends with 0xff", "a\xff", clientv3.OpGet("b", clientv3.WithFromKey()), "a\xffb", "b"},
		{"prefix of 0xff", "\xff\xff", clientv3.OpGet("b", clientv3.WithFromKey()), "\xff\xffb", "\x00"},
		{"range in a prefix of 0xff", "\xff", clientv3.OpGet("b", clientv3.WithRange("c")), "\xffb", "\xffc"},
		{"no prefix", "", clientv3.OpGet("b", clientv3.WithFromKey()), "b", "\x00"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cluster, c := clienttest.StartClient(t, 1)
			kv := namespace.NewKV(c, tt.prefix)
			_, err := kv.Do(t.Context(), tt.op)
			require.NoError(t, err)
			read := cluster.Calls("Range")[0].Request().(*pb.RangeRequest)
			assert.Equal(t, tt.key, string(read.Key))
			assert.Equal(t, tt.end, string(read.RangeEnd))
		})
	}
}

func TestRequestOfTxn(t *testing.T) {
	cluster, c := clienttest.StartClient(t, 1)
	kv := namespace.NewKV(c, "ns/")
	cmps := []clientv3.Cmp{
		clientv3.Compare(clientv3.Version("k"), "=", 0),
		clientv3.Compare(clientv3.Version("a"), "<", 9).WithRange("c"),
		clientv3.Compare(clientv3.Version("b"), "<", 9).WithRange("\x00"),
		clientv3.Compare(clientv3.Version("").WithPrefix(), "<", 9),
	}
	inner := clientv3.OpTxn(cmps[:1], []clientv3.Op{clientv3.OpDelete("z", clientv3.WithFromKey())}, nil)
	thenOps := []clientv3.Op{clientv3.OpPut("k", "v"), inner}
	elseOps := []clientv3.Op{clientv3.OpGet("a", clientv3.WithPrefix())}

	want := &pb.TxnRequest{
		Compare: []*pb.Compare{
			{Key: []byte("ns/k"), TargetUnion: &pb.Compare_Version{Version: 0}},
			{Key: []byte("ns/a"), RangeEnd: []byte("ns/c"), Result: pb.Compare_LESS, TargetUnion: &pb.Compare_Version{Version: 9}},
			{Key: []byte("ns/b"), RangeEnd: []byte("ns0"), Result: pb.Compare_LESS, TargetUnion: &pb.Compare_Version{Version: 9}},
			{Key: []byte("ns/\x00"), RangeEnd: []byte("ns0"), Result: pb.Compare_LESS, TargetUnion: &pb.Compare_Version{Version: 9}},
		},
		Success: []*pb.RequestOp{
			{Request: &pb.RequestOp_RequestPut{RequestPut: &pb.PutRequest{Key: []byte("ns/k"), Value: []byte("v")}}},
			{Request: &pb.RequestOp_RequestTxn{RequestTxn: &pb.TxnRequest{
				Compare: []*pb.Compare{{Key: []byte("ns/k"), TargetUnion: &pb.Compare_Version{Version: 0}}},
				Success: []*pb.RequestOp{{Request: &pb.RequestOp_RequestDeleteRange{
					RequestDeleteRange: &pb.DeleteRangeRequest{Key: []byte("ns/z"), RangeEnd: []byte("ns0")},
				}}},
			}}},
		},
		Failure: []*pb.RequestOp{{Request: &pb.RequestOp_RequestRange{
			RequestRange: &pb.RangeRequest{Key: []byte("ns/a"), RangeEnd: []byte("ns/b")},
		}}},
	}
	for name, commit := range map[string]func() error{
		"Txn": func() error {
			_, err := kv.Txn(t.Context()).If(cmps...).Then(thenOps...).Else(elseOps...).Commit()
			return err
		},
		"Do": func() error {
			_, err := kv.Do(t.Context(), clientv3.OpTxn(cmps, thenOps, elseOps))
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			sent := cluster.Count("Txn")
			require.NoError(t, commit())
			got := cluster.Calls("Txn")[sent].Request()
			require.Empty(t, cmp.Diff(want, got, protocmp.Transform()))
			assert.Equal(t, "a", string(cmps[1].KeyBytes()), "the comparisons are the caller's")
			assert.Equal(t, "c", string(cmps[1].GetCompare().RangeEnd))
			assert.Equal(t, "k", string(thenOps[0].KeyBytes()), "and so are the operations")
			_, nested, _ := thenOps[1].Txn()
			assert.Equal(t, "z", string(nested[0].KeyBytes()))
		})
	}
}

// TestEmptyKeys is about the key that equals the prefix: it is not in the namespace,
// and nothing may reach it.
func TestEmptyKeys(t *testing.T) {
	cluster, c := clienttest.StartClient(t, 1)
	kv := namespace.NewKV(c, "ns/")
	ctx := t.Context()
	commit := func(txn clientv3.Txn) error {
		_, err := txn.Commit()
		return err
	}
	missing := clientv3.Compare(clientv3.Version(""), "=", 0)
	put, get := clientv3.OpPut("", "v"), clientv3.OpGet("")
	for name, call := range map[string]func() error{
		"Put":                 func() error { _, err := kv.Put(ctx, "", "v"); return err },
		"Get":                 func() error { _, err := kv.Get(ctx, ""); return err },
		"Get range":           func() error { _, err := kv.Get(ctx, "", clientv3.WithRange("z")); return err },
		"GetStream":           func() error { _, err := kv.GetStream(ctx, "", clientv3.WithRange("z")); return err },
		"Delete":              func() error { _, err := kv.Delete(ctx, ""); return err },
		"Do put":              func() error { _, err := kv.Do(ctx, put); return err },
		"Do get":              func() error { _, err := kv.Do(ctx, get); return err },
		"Do delete":           func() error { _, err := kv.Do(ctx, clientv3.OpDelete("")); return err },
		"If":                  func() error { return commit(kv.Txn(ctx).If(missing).Then(clientv3.OpPut("a", "v"))) },
		"Then":                func() error { return commit(kv.Txn(ctx).Then(put, clientv3.OpPut("a", "v"))) },
		"Else":                func() error { return commit(kv.Txn(ctx).Else(clientv3.OpPut("a", "v"), get)) },
		"Do txn, comparison":  func() error { _, err := kv.Do(ctx, clientv3.OpTxn([]clientv3.Cmp{missing}, nil, nil)); return err },
		"Do txn, then":        func() error { _, err := kv.Do(ctx, clientv3.OpTxn(nil, []clientv3.Op{put}, nil)); return err },
		"Do txn, else":        func() error { _, err := kv.Do(ctx, clientv3.OpTxn(nil, nil, []clientv3.Op{put})); return err },
		"nested, in Then":     func() error { return commit(kv.Txn(ctx).Then(clientv3.OpTxn(nil, []clientv3.Op{put}, nil))) },
		"first of two errors": func() error { return commit(kv.Txn(ctx).If(missing).Then(put).Else(put)) },
	} {
		assert.Equal(t, rpctypes.ErrEmptyKey, call(), name)
	}
	assert.Empty(t, cluster.Calls(), "nothing was sent")
}

func TestTxnKeepsItsOrder(t *testing.T) {
	_, c := clienttest.StartClient(t, 1)
	kv := namespace.NewKV(c, "ns/")
	assert.PanicsWithValue(t, "cannot call If after Then!", func() { kv.Txn(t.Context()).Then().If() })
	assert.PanicsWithValue(t, "cannot call Then twice!", func() {
		kv.Txn(t.Context()).Then(clientv3.OpPut("", "")).Then()
	})
}

// sharing is a KV that gives the same response to all callers, as a cache may.
type sharing struct {
	clientv3.KV
	resp clientv3.OpResponse
}

func (s sharing) Do(context.Context, clientv3.Op) (clientv3.OpResponse, error) { return s.resp, nil }

func TestSharedResponsesStayAsTheyAre(t *testing.T) {
	kvs := func() []*mvccpb.KeyValue {
		return []*mvccpb.KeyValue{{Key: []byte("ns/ns/k"), Value: []byte("v"), CreateRevision: 1, ModRevision: 2, Version: 3, Lease: 4}}
	}
	get := &pb.RangeResponse{Header: &pb.ResponseHeader{Revision: 7}, Kvs: kvs(), More: true, Count: 5}
	put := &pb.PutResponse{Header: &pb.ResponseHeader{Revision: 7}, PrevKv: kvs()[0]}
	del := &pb.DeleteRangeResponse{Header: &pb.ResponseHeader{Revision: 7}, PrevKvs: kvs(), Deleted: 1}
	txn := func(get *pb.RangeResponse, put *pb.PutResponse, del *pb.DeleteRangeResponse) *pb.TxnResponse {
		ops := []*pb.ResponseOp{
			{Response: &pb.ResponseOp_ResponseRange{ResponseRange: get}},
			{Response: &pb.ResponseOp_ResponsePut{ResponsePut: put}},
			{Response: &pb.ResponseOp_ResponseDeleteRange{ResponseDeleteRange: del}},
		}
		nested := &pb.TxnResponse{Responses: ops}
		return &pb.TxnResponse{Header: &pb.ResponseHeader{Revision: 7}, Succeeded: true, Responses: append(ops,
			&pb.ResponseOp{Response: &pb.ResponseOp_ResponseTxn{ResponseTxn: nested}}, &pb.ResponseOp{})}
	}
	stripped := func(kv *mvccpb.KeyValue) *mvccpb.KeyValue {
		kv = proto.CloneOf(kv)
		kv.Key = []byte("ns/k") // once, not twice
		return kv
	}
	wantGet, wantPut, wantDel := proto.CloneOf(get), proto.CloneOf(put), proto.CloneOf(del)
	wantGet.Kvs[0], wantPut.PrevKv, wantDel.PrevKvs[0] = stripped(get.Kvs[0]), stripped(put.PrevKv), stripped(del.PrevKvs[0])

	for name, tt := range map[string]struct {
		resp clientv3.OpResponse
		want proto.Message
		of   func(clientv3.OpResponse) proto.Message
	}{
		"get": {
			(*clientv3.GetResponse)(get).OpResponse(), wantGet,
			func(r clientv3.OpResponse) proto.Message { return (*pb.RangeResponse)(r.Get()) },
		},
		"put": {
			(*clientv3.PutResponse)(put).OpResponse(), wantPut,
			func(r clientv3.OpResponse) proto.Message { return (*pb.PutResponse)(r.Put()) },
		},
		"delete": {
			(*clientv3.DeleteResponse)(del).OpResponse(), wantDel,
			func(r clientv3.OpResponse) proto.Message { return (*pb.DeleteRangeResponse)(r.Del()) },
		},
		"txn": {
			(*clientv3.TxnResponse)(txn(get, put, del)).OpResponse(), txn(wantGet, wantPut, wantDel),
			func(r clientv3.OpResponse) proto.Message { return (*pb.TxnResponse)(r.Txn()) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			before := proto.Clone(tt.of(tt.resp))
			kv := namespace.NewKV(sharing{resp: tt.resp}, "ns/")
			for range 2 {
				got, err := kv.Do(t.Context(), clientv3.OpGet("k"))
				require.NoError(t, err)
				require.Empty(t, cmp.Diff(tt.want, tt.of(got), protocmp.Transform()))
				require.Empty(t, cmp.Diff(before, tt.of(tt.resp), protocmp.Transform()), "the shared response")
			}
		})
	}
}

// A namespace in a namespace is one with both prefixes.
func TestNested(t *testing.T) {
	cluster, c := clienttest.StartClient(t, 1)
	kv := namespace.NewKV(namespace.NewKV(c, "outer/"), "inner/")
	_, err := kv.Put(t.Context(), "k", "v")
	require.NoError(t, err)
	require.NotNil(t, cluster.Get("outer/inner/k"))
	_, err = c.Put(t.Context(), "outer/k", "not in it")
	require.NoError(t, err)
	resp := clienttest.Get(t, kv, "", clientv3.WithPrefix())
	require.Len(t, resp.Kvs, 1)
	assert.Equal(t, "k", string(resp.Kvs[0].Key))
}

func TestErrorsPass(t *testing.T) {
	_, c := clienttest.StartClient(t, 1)
	kv := namespace.NewKV(c, "ns/")
	resp, err := kv.Get(t.Context(), "k", clientv3.WithRev(100))
	require.Equal(t, rpctypes.ErrFutureRev, err)
	require.Nil(t, resp)
	_, err = kv.Get(t.Context(), "k", clientv3.WithSort(clientv3.SortByKey, 7))
	require.Equal(t, rpctypes.ErrInvalidSortOption, err)
	txn, err := kv.Txn(t.Context()).Then(clientv3.OpPut("k", "1"), clientv3.OpPut("k", "2")).Commit()
	require.Equal(t, rpctypes.ErrDuplicateKey, err)
	require.Nil(t, txn)
	_, err = kv.Compact(t.Context(), 100)
	require.Equal(t, rpctypes.ErrFutureRev, err)
}
