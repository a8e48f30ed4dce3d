package clientv3_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	. "github.com/quorate/quorate/clientv3"
)

func TestKV(t *testing.T) {
	r := &recorder{}
	kv := r.kv()
	testUnary(t, r, []unaryCase{
		{kv.Put, args{"k", "v", WithPrevKV()}, &pb.PutRequest{Key: []byte("k"), Value: []byte("v"), PrevKv: true}},
		{kv.Get, args{"k", WithLimit(1)}, &pb.RangeRequest{Key: []byte("k"), Limit: 1}},
		{kv.Delete, args{"k"}, &pb.DeleteRangeRequest{Key: []byte("k")}},
		{kv.Compact, args{7, WithCompactPhysical()}, &pb.CompactionRequest{Revision: 7, Physical: true}},
	})
}

func TestDo(t *testing.T) {
	set := func(r OpResponse) [4]bool {
		return [4]bool{r.Put() != nil, r.Get() != nil, r.Del() != nil, r.Txn() != nil}
	}
	for i, op := range []Op{OpPut("k", "v"), OpGet("k"), OpDelete("k"), OpTxn(nil, nil, nil)} {
		resp, err := (&recorder{}).kv().Do(t.Context(), op)
		require.NoError(t, err)
		want := [4]bool{}
		want[i] = true
		require.Equal(t, want, set(resp))

		resp, err = failing(rpctypes.ErrGRPCNoSpace).kv().Do(t.Context(), op)
		require.Equal(t, OpResponse{}, resp)
		require.Equal(t, rpctypes.ErrNoSpace, err)
	}
}

func TestInvalidSortIsNotSent(t *testing.T) {
	r := &recorder{}
	_, err := r.kv().Get(t.Context(), "k", WithSort(99, SortAscend))
	require.Equal(t, rpctypes.ErrInvalidSortOption, err)
	_, err = r.kv().Do(t.Context(), OpGet("k", WithSort(SortByKey, 99)))
	require.Equal(t, rpctypes.ErrInvalidSortOption, err)
	require.Empty(t, r.calls)
}

// lab/behaviours calls the parts in every order, beside the official client.
func TestTxnOrder(t *testing.T) {
	txn := func() Txn { return (&recorder{}).kv().Txn(t.Context()) }
	require.PanicsWithValue(t, "cannot call If twice!", func() { txn().If().If() })
	require.PanicsWithValue(t, "cannot call If after Then!", func() { txn().Then().If() })
	require.PanicsWithValue(t, "cannot call Then after Else!", func() { txn().If().Else().Then() })
}

func TestTxnCommit(t *testing.T) {
	reply := &pb.TxnResponse{Header: header(7), Succeeded: true}
	r := replying(reply)
	cmp := Compare(Value("k"), "=", "v")
	txn := r.kv().Txn(t.Context()).If(cmp).Then(OpPut("k", "w")).Else(OpGet("k"))
	// What was given to If is the transaction's own from then on.
	cmp.WithKeyBytes([]byte("other"))

	resp, err := txn.Commit()
	require.NoError(t, err)
	requireProto(t, reply, (*pb.TxnResponse)(resp))
	requireProto(t, &pb.TxnRequest{
		Compare: []*pb.Compare{{Key: []byte("k"), Target: pb.Compare_VALUE, TargetUnion: &pb.Compare_Value{Value: []byte("v")}}},
		Success: []*pb.RequestOp{{Request: &pb.RequestOp_RequestPut{RequestPut: &pb.PutRequest{Key: []byte("k"), Value: []byte("w")}}}},
		Failure: []*pb.RequestOp{{Request: &pb.RequestOp_RequestRange{RequestRange: &pb.RangeRequest{Key: []byte("k")}}}},
	}, r.only(t))
}
