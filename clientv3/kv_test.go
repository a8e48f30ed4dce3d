package clientv3_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	. "github.com/quorate/quorate/clientv3"
)

var oneKey = []*mvccpb.KeyValue{{Key: []byte("k"), Value: []byte("v"), ModRevision: 7}}

func TestKVResponses(t *testing.T) {
	t.Run("Put", func(t *testing.T) {
		want := &pb.PutResponse{Header: header(7), PrevKv: oneKey[0]}
		r := replying(want)
		resp, err := r.kv().Put(t.Context(), "k", "v", WithPrevKV())
		require.NoError(t, err)
		requireProto(t, want, (*pb.PutResponse)(resp))
		requireProto(t, &pb.PutRequest{Key: []byte("k"), Value: []byte("v"), PrevKv: true}, r.only(t).req)
		require.Same(t, resp, resp.OpResponse().Put())
	})
	t.Run("Get", func(t *testing.T) {
		want := &pb.RangeResponse{Header: header(7), Kvs: oneKey, Count: 2, More: true}
		r := replying(want)
		resp, err := r.kv().Get(t.Context(), "k", WithLimit(1))
		require.NoError(t, err)
		requireProto(t, want, (*pb.RangeResponse)(resp))
		requireProto(t, &pb.RangeRequest{Key: []byte("k"), Limit: 1}, r.only(t).req)
		require.Same(t, resp, resp.OpResponse().Get())
	})
	t.Run("Delete", func(t *testing.T) {
		want := &pb.DeleteRangeResponse{Header: header(7), Deleted: 1, PrevKvs: oneKey}
		r := replying(want)
		resp, err := r.kv().Delete(t.Context(), "k")
		require.NoError(t, err)
		requireProto(t, want, (*pb.DeleteRangeResponse)(resp))
		requireProto(t, &pb.DeleteRangeRequest{Key: []byte("k")}, r.only(t).req)
		require.Same(t, resp, resp.OpResponse().Del())
	})
	t.Run("Compact", func(t *testing.T) {
		want := &pb.CompactionResponse{Header: header(7)}
		r := replying(want)
		resp, err := r.kv().Compact(t.Context(), 7, WithCompactPhysical())
		require.NoError(t, err)
		requireProto(t, want, (*pb.CompactionResponse)(resp))
		requireProto(t, &pb.CompactionRequest{Revision: 7, Physical: true}, r.only(t).req)
	})
}

func TestDoSetsOneResponse(t *testing.T) {
	set := func(r OpResponse) [4]bool {
		return [4]bool{r.Put() != nil, r.Get() != nil, r.Del() != nil, r.Txn() != nil}
	}
	kv := (&recorder{}).kv()
	for _, tt := range []struct {
		op   Op
		want [4]bool
	}{
		{OpPut("k", "v"), [4]bool{true, false, false, false}},
		{OpGet("k"), [4]bool{false, true, false, false}},
		{OpDelete("k"), [4]bool{false, false, true, false}},
		{OpTxn(nil, nil, nil), [4]bool{false, false, false, true}},
	} {
		resp, err := kv.Do(t.Context(), tt.op)
		require.NoError(t, err)
		require.Equal(t, tt.want, set(resp))
	}
	require.Equal(t, [4]bool{false, false, false, true}, set((&TxnResponse{}).OpResponse()))
}

func TestKVErrors(t *testing.T) {
	calls := map[string]func(kv KV) (any, error){
		"Put":     func(kv KV) (any, error) { return kv.Put(t.Context(), "k", "v") },
		"Get":     func(kv KV) (any, error) { return kv.Get(t.Context(), "k") },
		"Delete":  func(kv KV) (any, error) { return kv.Delete(t.Context(), "k") },
		"Compact": func(kv KV) (any, error) { return kv.Compact(t.Context(), 7) },
		"Txn":     func(kv KV) (any, error) { return kv.Txn(t.Context()).Commit() },
	}
	for name, do := range calls {
		t.Run(name, func(t *testing.T) {
			resp, err := do(failing(rpctypes.ErrGRPCCompacted).kv())
			require.Nil(t, resp)
			require.Equal(t, rpctypes.ErrCompacted, err, "%v must be bare", err)

			resp, err = do(failing(status.Error(codes.Internal, "boom")).kv())
			require.Nil(t, resp)
			require.Equal(t, codes.Internal, status.Code(err))
		})
	}
	for _, op := range []Op{OpPut("k", "v"), OpGet("k"), OpDelete("k"), OpTxn(nil, nil, nil)} {
		resp, err := failing(rpctypes.ErrGRPCNoSpace).kv().Do(t.Context(), op)
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

func TestTxnOrder(t *testing.T) {
	tests := []struct{ calls, panics string }{
		{"", ""},
		{"If", ""},
		{"Then", ""},
		{"Else", ""},
		{"If Then", ""},
		{"If Else", ""},
		{"Then Else", ""},
		{"If Then Else", ""},
		{"If If", "cannot call If twice!"},
		{"If Then If", "cannot call If twice!"},
		{"If Else If", "cannot call If twice!"},
		{"Then If", "cannot call If after Then!"},
		{"Else If", "cannot call If after Else!"},
		{"Then Else If", "cannot call If after Then!"},
		{"Then Then", "cannot call Then twice!"},
		{"Then Else Then", "cannot call Then twice!"},
		{"Else Then", "cannot call Then after Else!"},
		{"If Else Then", "cannot call Then after Else!"},
		{"Else Else", "cannot call Else twice!"},
		{"If Then Else Else", "cannot call Else twice!"},
	}
	for _, tt := range tests {
		t.Run(tt.calls, func(t *testing.T) {
			run := func() {
				txn := (&recorder{}).kv().Txn(t.Context())
				for _, part := range strings.Fields(tt.calls) {
					switch part {
					case "If":
						txn = txn.If(Compare(Version("k"), "=", 0))
					case "Then":
						txn = txn.Then(OpPut("k", "v"))
					case "Else":
						txn = txn.Else(OpGet("k"))
					}
				}
			}
			if tt.panics == "" {
				require.NotPanics(t, run)
			} else {
				require.PanicsWithValue(t, tt.panics, run)
			}
		})
	}
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
	}, r.only(t).req)
}
