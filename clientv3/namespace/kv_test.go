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
	resp := clienttest.Must(namespace.NewKV(c, "ns/").Txn(t.Context()).If(all).Then(clientv3.OpPut("k", "v")).Commit())
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

// The response to a transaction has those to all operations.
func TestSharedResponsesStayAsTheyAre(t *testing.T) {
	kvs := func(key string) []*mvccpb.KeyValue {
		return []*mvccpb.KeyValue{{Key: []byte(key), Value: []byte("v"), CreateRevision: 1, ModRevision: 2, Version: 3, Lease: 4}}
	}
	header := &pb.ResponseHeader{Revision: 7}
	response := func(key string) *pb.TxnResponse {
		ops := []*pb.ResponseOp{
			{Response: &pb.ResponseOp_ResponseRange{ResponseRange: &pb.RangeResponse{Header: header, Kvs: kvs(key), More: true, Count: 5}}},
			{Response: &pb.ResponseOp_ResponsePut{ResponsePut: &pb.PutResponse{Header: header, PrevKv: kvs(key)[0]}}},
			{Response: &pb.ResponseOp_ResponseDeleteRange{
				ResponseDeleteRange: &pb.DeleteRangeResponse{Header: header, PrevKvs: kvs(key), Deleted: 1},
			}},
		}
		nested := &pb.ResponseOp{Response: &pb.ResponseOp_ResponseTxn{ResponseTxn: &pb.TxnResponse{Responses: ops}}}
		return &pb.TxnResponse{Header: header, Succeeded: true, Responses: append(ops, nested, &pb.ResponseOp{})}
	}
	shared := response("ns/ns/k")
	kv := namespace.NewKV(sharing{resp: (*clientv3.TxnResponse)(shared).OpResponse()}, "ns/")
	for range 2 {
		got := clienttest.Must(kv.Do(t.Context(), clientv3.OpGet("k")))
		require.Empty(t, cmp.Diff(response("ns/k"), (*pb.TxnResponse)(got.Txn()), protocmp.Transform()), "the prefix goes once, not twice")
		require.Empty(t, cmp.Diff(response("ns/ns/k"), shared, protocmp.Transform()), "the shared response")
	}
}

// A KV below may have a Txn of its own.
func TestTxnIsThatOfTheKVBelow(t *testing.T) {
	_, c := clienttest.StartClient(t, 1)
	below := &ownTxn{KV: c.KV}
	_, err := namespace.NewKV(below, "ns/").Txn(t.Context()).Then(clientv3.OpPut("k", "v")).Commit()
	require.NoError(t, err)
	assert.Equal(t, 1, below.txns)
}

type ownTxn struct {
	clientv3.KV
	txns int
}

func (kv *ownTxn) Txn(ctx context.Context) clientv3.Txn {
	kv.txns++
	return kv.KV.Txn(ctx)
}
