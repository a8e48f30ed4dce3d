package clientv3_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	. "github.com/quorate/quorate/clientv3"
)

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

func TestTxnCommitError(t *testing.T) {
	resp, err := failing(rpctypes.ErrGRPCTooManyOps).kv().Txn(t.Context()).Commit()
	require.Nil(t, resp)
	require.Equal(t, rpctypes.ErrTooManyOps, err, "%v must be bare", err)
}
