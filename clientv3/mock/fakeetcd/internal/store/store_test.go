package store

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/quorate/quorate/clientv3/internal/semantics"
)

// What a client sees is tested in lab/behaviours, which makes the same calls of this store and of etcd: those of each kind in
// order, and thousands at random. Here is the rest.

func opPut(key string) *pb.RequestOp {
	return &pb.RequestOp{Request: &pb.RequestOp_RequestPut{RequestPut: &pb.PutRequest{Key: []byte(key)}}}
}

func opTxn(success ...*pb.RequestOp) *pb.RequestOp {
	return &pb.RequestOp{Request: &pb.RequestOp_RequestTxn{RequestTxn: &pb.TxnRequest{Success: success}}}
}

// Each level of nesting takes from etcd's limit of operations. The check for a key that is put and deleted overlooks
// deletions of every key from one on; etcd panics when it executes some of them.
func TestTxnChecks(t *testing.T) {
	many := func(n int) []*pb.RequestOp {
		var list []*pb.RequestOp
		for range n {
			list = append(list, &pb.RequestOp{Request: &pb.RequestOp_RequestRange{RequestRange: &pb.RangeRequest{Key: []byte("k")}}})
		}
		return list
	}
	deleteFrom := &pb.RequestOp{Request: &pb.RequestOp_RequestDeleteRange{
		RequestDeleteRange: &pb.DeleteRangeRequest{Key: []byte("a"), RangeEnd: []byte{0}},
	}}
	for name, tt := range map[string]struct {
		ops  []*pb.RequestOp
		want error
	}{
		"128 operations":                 {many(128), nil},
		"129 operations":                 {many(129), rpctypes.ErrGRPCTooManyOps},
		"nested beyond what is left":     {append(many(127), opTxn(many(1)...)), rpctypes.ErrGRPCTooManyOps},
		"put and delete from a key on":   {[]*pb.RequestOp{opPut("k"), deleteFrom}, nil},
		"put and nested put":             {[]*pb.RequestOp{opPut("k"), opTxn(opPut("k"))}, rpctypes.ErrGRPCDuplicateKey},
		"nested puts of different nests": {[]*pb.RequestOp{opTxn(opPut("k")), opTxn(opPut("k"))}, rpctypes.ErrGRPCDuplicateKey},
	} {
		assert.Equal(t, tt.want, Check(&pb.TxnRequest{Success: tt.ops}), "success: %s", name)
		assert.Equal(t, tt.want, Check(&pb.TxnRequest{Failure: tt.ops}), "failure: %s", name)
	}
}

// A limit counts only revisions with a matching change, and divides none.
func TestEventsLimit(t *testing.T) {
	s := New()
	for _, ops := range [][]*pb.RequestOp{{opPut("a")}, {opPut("b")}, {opPut("a")}, {opPut("a"), opPut("aa")}} {
		_, err := s.Txn(&pb.TxnRequest{Success: ops})
		require.NoError(t, err)
	}
	for _, tt := range []struct {
		from         int64
		limit, count int
		more         int64
	}{
		{from: 0, limit: 0, count: 4},
		{from: 0, limit: 1, count: 1, more: 4},
		{from: 0, limit: 2, count: 2, more: 5},
		{from: 3, limit: 1, count: 1, more: 5},
		{from: 5, limit: 1, count: 2},
		{from: 0, limit: 3, count: 4},
		{from: 6, limit: 1, count: 0},
	} {
		found := s.Events(Query{Keys: semantics.Of([]byte("a"), []byte("b")), From: tt.from, Limit: tt.limit})
		assert.Len(t, found.Events, tt.count, "%+v", tt)
		assert.Equal(t, tt.more, found.More, "%+v", tt)
	}
}

// Changing a result changes neither the store nor other results.
func TestNoAliasing(t *testing.T) {
	s := New()
	value := []byte("v")
	_, err := s.Put(&pb.PutRequest{Key: []byte("k"), Value: value})
	require.NoError(t, err)
	value[0] = 'x'
	read, err := s.Range(&pb.RangeRequest{Key: []byte("k")})
	require.NoError(t, err)
	read.Kvs[0].Value[0] = 'x'
	s.Get("k").Value[0] = 'x'
	assert.Equal(t, "v", string(s.Get("k").Value))
}
