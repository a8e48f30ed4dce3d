package store

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
)

func opPut(key, value string) *pb.RequestOp {
	return &pb.RequestOp{Request: &pb.RequestOp_RequestPut{
		RequestPut: &pb.PutRequest{Key: []byte(key), Value: []byte(value)},
	}}
}

func opGet(r *pb.RangeRequest) *pb.RequestOp {
	return &pb.RequestOp{Request: &pb.RequestOp_RequestRange{RequestRange: r}}
}

func opDelete(key, end string) *pb.RequestOp {
	return &pb.RequestOp{Request: &pb.RequestOp_RequestDeleteRange{
		RequestDeleteRange: &pb.DeleteRangeRequest{Key: []byte(key), RangeEnd: []byte(end)},
	}}
}

func opTxn(success, failure []*pb.RequestOp, cmps ...*pb.Compare) *pb.RequestOp {
	return &pb.RequestOp{Request: &pb.RequestOp_RequestTxn{
		RequestTxn: &pb.TxnRequest{Compare: cmps, Success: success, Failure: failure},
	}}
}

func ops(list ...*pb.RequestOp) []*pb.RequestOp { return list }

func versionIs(key string, v int64) *pb.Compare {
	return &pb.Compare{
		Key: []byte(key), Target: pb.Compare_VERSION, Result: pb.Compare_EQUAL,
		TargetUnion: &pb.Compare_Version{Version: v},
	}
}

func TestCompare(t *testing.T) {
	s := New()
	_, err := s.LeaseGrant(&pb.LeaseGrantRequest{ID: 7, TTL: 60})
	require.NoError(t, err)
	_, err = s.Put(&pb.PutRequest{Key: []byte("a"), Value: []byte("m"), Lease: 7})
	require.NoError(t, err)
	mustPut(t, s, "b", "n")
	mustPut(t, s, "b", "n")

	value := func(v string) *pb.Compare {
		return &pb.Compare{Target: pb.Compare_VALUE, TargetUnion: &pb.Compare_Value{Value: []byte(v)}}
	}
	mod := func(rev int64) *pb.Compare {
		return &pb.Compare{Target: pb.Compare_MOD, TargetUnion: &pb.Compare_ModRevision{ModRevision: rev}}
	}
	create := func(rev int64) *pb.Compare {
		return &pb.Compare{Target: pb.Compare_CREATE, TargetUnion: &pb.Compare_CreateRevision{CreateRevision: rev}}
	}
	lease := func(id int64) *pb.Compare {
		return &pb.Compare{Target: pb.Compare_LEASE, TargetUnion: &pb.Compare_Lease{Lease: id}}
	}
	tests := []struct {
		name     string
		key, end string
		result   pb.Compare_CompareResult
		c        *pb.Compare
		want     bool
	}{
		{"value equal", "a", "", pb.Compare_EQUAL, value("m"), true},
		{"value differs", "a", "", pb.Compare_NOT_EQUAL, value("m"), false},
		{"value of nothing is never equal", "x", "", pb.Compare_EQUAL, value(""), false},
		{"value of nothing is never unequal", "x", "", pb.Compare_NOT_EQUAL, value("m"), false},
		{"value greater", "a", "", pb.Compare_GREATER, value("l"), true},
		{"value less", "a", "", pb.Compare_LESS, value("l"), false},
		{"value of all keys", "a", "c", pb.Compare_GREATER, value("l"), true},
		{"value of not all keys", "a", "c", pb.Compare_EQUAL, value("m"), false},
		{"version of nothing is 0", "x", "", pb.Compare_EQUAL, versionIs("x", 0), true},
		{"version", "b", "", pb.Compare_EQUAL, versionIs("b", 2), true},
		{"create revision", "b", "", pb.Compare_EQUAL, create(3), true},
		{"create revision of nothing", "x", "", pb.Compare_GREATER, create(0), false},
		{"mod revision", "b", "", pb.Compare_LESS, mod(4), false},
		{"mod revision in the range", "a", "\x00", pb.Compare_LESS, mod(5), true},
		{"lease", "a", "", pb.Compare_EQUAL, lease(7), true},
		{"no lease", "b", "", pb.Compare_EQUAL, lease(0), true},
	}
	for _, tt := range tests {
		tt.c.Key, tt.c.RangeEnd, tt.c.Result = []byte(tt.key), []byte(tt.end), tt.result
		resp, err := s.Txn(&pb.TxnRequest{Compare: []*pb.Compare{tt.c}})
		require.NoError(t, err, tt.name)
		assert.Equal(t, tt.want, resp.Succeeded, tt.name)
	}
}

func TestTxn(t *testing.T) {
	s := New()
	mustPut(t, s, "a", "1")
	resp, err := s.Txn(&pb.TxnRequest{
		Compare: []*pb.Compare{versionIs("a", 1)},
		Success: ops(
			opGet(&pb.RangeRequest{Key: []byte("b")}),
			opPut("b", "2"),
			opGet(&pb.RangeRequest{Key: []byte("b")}),
			opDelete("a", ""),
		),
		Failure: ops(opPut("failed", "")),
	})
	require.NoError(t, err)
	assert.True(t, resp.Succeeded)
	assert.EqualValues(t, 3, resp.Header.Revision)
	require.Len(t, resp.Responses, 4)
	assert.Empty(t, resp.Responses[0].GetResponseRange().Kvs, "a read before the writes")
	assert.EqualValues(t, 2, resp.Responses[0].GetResponseRange().Header.Revision)
	assert.Equal(t, "b=2", keysOf(resp.Responses[2].GetResponseRange().Kvs), "a read after the writes")
	assert.EqualValues(t, 3, resp.Responses[2].GetResponseRange().Header.Revision)
	assert.EqualValues(t, 1, resp.Responses[3].GetResponseDeleteRange().Deleted)
	assert.Nil(t, s.Get("a"))
	assert.Nil(t, s.Get("failed"))
	assert.EqualValues(t, 3, s.Get("b").ModRevision)

	resp, err = s.Txn(&pb.TxnRequest{Success: ops(opGet(&pb.RangeRequest{Key: []byte("b")}))})
	require.NoError(t, err)
	assert.EqualValues(t, 3, resp.Header.Revision, "a read makes no revision")
}

// Nested comparisons see the state before any write.
func TestNestedTxn(t *testing.T) {
	s := New()
	resp, err := s.Txn(&pb.TxnRequest{Success: ops(
		opPut("a", "1"),
		opTxn(ops(opPut("b", "absent")), ops(opPut("b", "present")), versionIs("a", 0)),
	)})
	require.NoError(t, err)
	nested := resp.Responses[1].GetResponseTxn()
	assert.True(t, nested.Succeeded)
	assert.Zero(t, nested.Header.Revision, "only the outermost header has a revision")
	assert.Equal(t, "absent", string(s.Get("b").Value))
	assert.EqualValues(t, 2, s.Revision())
}

func TestTxnIsAppliedWholeOrNotAtAll(t *testing.T) {
	for name, tt := range map[string]struct {
		op   *pb.RequestOp
		want error
	}{
		"unknown lease": {&pb.RequestOp{Request: &pb.RequestOp_RequestPut{
			RequestPut: &pb.PutRequest{Key: []byte("k"), Lease: 9},
		}}, rpctypes.ErrGRPCLeaseNotFound},
		"ignore_lease without a key": {&pb.RequestOp{Request: &pb.RequestOp_RequestPut{
			RequestPut: &pb.PutRequest{Key: []byte("k"), IgnoreLease: true},
		}}, rpctypes.ErrGRPCKeyNotFound},
		"future revision":        {opGet(&pb.RangeRequest{Key: []byte("k"), Revision: 9}), rpctypes.ErrGRPCFutureRev},
		"nested future revision": {opTxn(ops(opGet(&pb.RangeRequest{Key: []byte("k"), Revision: 9})), nil), rpctypes.ErrGRPCFutureRev},
	} {
		s := New()
		_, err := s.Txn(&pb.TxnRequest{Success: ops(opPut("first", ""), tt.op)})
		assert.Equal(t, tt.want, err, name)
		assert.EqualValues(t, 1, s.Revision(), name)
		assert.Nil(t, s.Get("first"), name)
	}
}

func TestTxnChecks(t *testing.T) {
	many := func(n int) []*pb.RequestOp {
		var list []*pb.RequestOp
		for range n {
			list = append(list, opGet(&pb.RangeRequest{Key: []byte("k")}))
		}
		return list
	}
	tests := []struct {
		name string
		ops  []*pb.RequestOp
		want error
	}{
		{"128 operations", many(128), nil},
		{"129 operations", many(129), rpctypes.ErrGRPCTooManyOps},
		{"nested beyond what is left", append(many(127), opTxn(many(1), nil)), rpctypes.ErrGRPCTooManyOps},
		{"empty operation", ops(&pb.RequestOp{}), rpctypes.ErrGRPCKeyNotFound},
		{"empty key", ops(opPut("", "")), rpctypes.ErrGRPCEmptyKey},
		{"same key twice", ops(opPut("k", "1"), opPut("k", "2")), rpctypes.ErrGRPCDuplicateKey},
		{"put and delete", ops(opPut("k", "1"), opDelete("a", "z")), rpctypes.ErrGRPCDuplicateKey},
		{"put and delete from a key on", ops(opPut("k", "1"), opDelete("a", "\x00")), nil},
		{"delete twice", ops(opDelete("k", ""), opDelete("a", "z")), nil},
		{"put and nested put", ops(opPut("k", "1"), opTxn(ops(opPut("k", "2")), nil)), rpctypes.ErrGRPCDuplicateKey},
		{"put and nested delete", ops(opPut("k", "1"), opTxn(nil, ops(opDelete("k", "")))), rpctypes.ErrGRPCDuplicateKey},
		{"delete and nested put", ops(opDelete("k", ""), opTxn(nil, ops(opPut("k", "2")))), rpctypes.ErrGRPCDuplicateKey},
		{"both branches put", ops(opTxn(ops(opPut("k", "1")), ops(opPut("k", "2")))), nil},
		{"two nested puts", ops(opTxn(ops(opPut("k", "1")), nil), opTxn(nil, ops(opPut("k", "2")))), rpctypes.ErrGRPCDuplicateKey},
	}
	for _, tt := range tests {
		_, err := New().Txn(&pb.TxnRequest{Success: tt.ops})
		assert.Equal(t, tt.want, err, "success: %s", tt.name)
		_, err = New().Txn(&pb.TxnRequest{Failure: tt.ops})
		assert.Equal(t, tt.want, err, "failure: %s", tt.name)
	}
	_, err := New().Txn(&pb.TxnRequest{Compare: []*pb.Compare{{}}})
	assert.Equal(t, rpctypes.ErrGRPCEmptyKey, err)
}
