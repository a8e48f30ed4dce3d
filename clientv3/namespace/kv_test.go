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
	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/internal/clienttest"
	"github.com/quorate/quorate/clientv3/namespace"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// What a KV does beside operations: TestNamespaceIsAStore compares those.
func TestOrderAndCompaction(t *testing.T) {
	_, c := clienttest.StartClient(t, 1)
	kv := namespace.NewKV(c, "ns/")
	assert.PanicsWithValue(t, "cannot call If after Then!", func() { kv.Txn(t.Context()).Then().If() })
	assert.PanicsWithValue(t, "cannot call Then twice!", func() {
		kv.Txn(t.Context()).Then(clientv3.OpPut("", "")).Then()
	})
	_, err := kv.Compact(t.Context(), 100)
	require.Equal(t, rpctypes.ErrFutureRev, err)
}

// A comparison of a range may begin with the empty key, which the server alone would refuse.
func TestCompareAllKeys(t *testing.T) {
	cluster, c := clienttest.StartClient(t, 1)
	all := clientv3.Compare(clientv3.Version("").WithPrefix(), "<", 9)
	resp, err := namespace.NewKV(c, "ns/").Txn(t.Context()).If(all).Then(clientv3.OpPut("k", "v")).Commit()
	require.NoError(t, err)
	require.True(t, resp.Succeeded)
	compare := cluster.Calls("Txn")[0].Request().(*pb.TxnRequest).Compare[0]
	assert.Equal(t, "ns/\x00", string(compare.Key))
	assert.Equal(t, "ns0", string(compare.RangeEnd))
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
