package retry

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
)

func TestMethodsAreExactlyThoseOfTheDescriptors(t *testing.T) {
	var described []string
	protoregistry.GlobalFiles.RangeFilesByPackage("etcdserverpb", func(file protoreflect.FileDescriptor) bool {
		for i := range file.Services().Len() {
			service := file.Services().Get(i)
			for j := range service.Methods().Len() {
				described = append(described, "/"+string(service.FullName())+"/"+string(service.Methods().Get(j).Name()))
			}
		}
		return true
	})
	require.Greater(t, len(described), 40, "the descriptors were not found")
	var listed []string
	for _, m := range Methods() {
		listed = append(listed, m.Name)
		assert.NotEmpty(t, m.Reason, m.Name)
		assert.Equal(t, m.ByContent != "", m.content != nil, m.Name)
	}
	assert.ElementsMatch(t, described, listed)
}

func TestSafetyOf(t *testing.T) {
	for _, m := range Methods() {
		assert.Equal(t, m.Safety, SafetyOf(m.Name, nil), m.Name)
	}
	for _, name := range []string{"", "/", "/v3lockpb.Lock/Lock", "etcdserverpb.KV/Range", "/etcdserverpb.KV/Other"} {
		assert.Equal(t, Mutating, SafetyOf(name, &pb.RangeRequest{}), name)
	}
}

func TestSafetyByContent(t *testing.T) {
	get := &pb.RequestOp{Request: &pb.RequestOp_RequestRange{RequestRange: &pb.RangeRequest{}}}
	put := &pb.RequestOp{Request: &pb.RequestOp_RequestPut{RequestPut: &pb.PutRequest{}}}
	del := &pb.RequestOp{Request: &pb.RequestOp_RequestDeleteRange{RequestDeleteRange: &pb.DeleteRangeRequest{}}}
	nested := func(txn *pb.TxnRequest) *pb.RequestOp {
		return &pb.RequestOp{Request: &pb.RequestOp_RequestTxn{RequestTxn: txn}}
	}
	branches := func(success, failure []*pb.RequestOp) *pb.TxnRequest {
		return &pb.TxnRequest{Success: success, Failure: failure}
	}
	ops := func(ops ...*pb.RequestOp) []*pb.RequestOp { return ops }
	txn, grant := pb.KV_Txn_FullMethodName, pb.Lease_LeaseGrant_FullMethodName

	for _, tc := range []struct {
		name   string
		method string
		req    any
		want   Safety
	}{
		{"empty txn", txn, branches(nil, nil), Repeatable},
		{"reads", txn, branches(ops(get, get), ops(get)), Repeatable},
		{"put", txn, branches(ops(get, put), nil), Mutating},
		{"delete in else", txn, branches(ops(get), ops(get, del)), Mutating},
		{"nested reads", txn, branches(ops(nested(branches(ops(get), ops(nested(branches(ops(get), nil)))))), nil), Repeatable},
		{"put deep in else", txn, branches(ops(nested(branches(nil, ops(get, nested(branches(nil, ops(put))))))), nil), Mutating},
		{"nested delete in else", txn, branches(nil, ops(nested(branches(ops(del), nil)))), Mutating},
		{"operation without content", txn, branches(ops(&pb.RequestOp{}), nil), Mutating},
		{"nil operation", txn, branches(ops(nil), nil), Mutating},
		{"nested nil txn", txn, branches(ops(nested(nil)), nil), Repeatable},
		{"nil txn", txn, (*pb.TxnRequest)(nil), Mutating},
		{"not a txn", txn, &pb.RangeRequest{}, Mutating},
		{"no request", txn, nil, Mutating},
		{"grant with id", grant, &pb.LeaseGrantRequest{ID: -7, TTL: 1}, Repeatable},
		{"grant without id", grant, &pb.LeaseGrantRequest{TTL: 1}, Mutating},
		{"nil grant", grant, (*pb.LeaseGrantRequest)(nil), Mutating},
		{"not a grant", grant, branches(nil, nil), Mutating},
		{"put is no txn", pb.KV_Put_FullMethodName, branches(nil, nil), Mutating},
	} {
		t.Run(tc.name, func(t *testing.T) {
			assert.Equal(t, tc.want, SafetyOf(tc.method, tc.req))
		})
	}
}

// docs/error-tables.md has the matrix.
func TestDecide(t *testing.T) {
	for _, d := range append(Decisions(), Decision{Class: 200, Mutating: ReturnUnknown, Repeatable: Again}) {
		assert.Equal(t, d.Mutating, Decide(d.Class, Mutating), d.Class)
		assert.Equal(t, d.Repeatable, Decide(d.Class, Repeatable), d.Class)
		assert.Equal(t, d.Mutating, Decide(d.Class, Safety(7)), d.Class)
	}
}

func TestDecisionsCoverEveryClass(t *testing.T) {
	lines := Decisions()
	require.Len(t, lines, len(Classes()))
	for i, d := range lines {
		assert.Equal(t, Class(i), d.Class)
		assert.NotEmpty(t, d.Reason, d.Class)
	}
}

// A caller who changes what an accessor returned must not change the tables.
func TestAccessorsReturnCopies(t *testing.T) {
	Decisions()[Ambiguous].Mutating = Again
	assert.Equal(t, ReturnUnknown, Decide(Ambiguous, Mutating))

	ServerErrors()[0].Class = noClass
	assert.NotEqual(t, noClass, ServerErrors()[0].Class)
	LocalErrors()[0].Class = noClass
	assert.NotEqual(t, noClass, LocalErrors()[0].Class)
	Codes()[0].Class = noClass
	assert.NotEqual(t, noClass, Codes()[0].Class)

	name := Methods()[0].Name
	Methods()[0].Safety = Mutating
	assert.Equal(t, Repeatable, SafetyOf(name, nil))
	DefaultConfig().Default.RetryableStatusCodes[0] = 0
	assert.NotZero(t, DefaultConfig().Default.RetryableStatusCodes[0])
}

// noClass is a class that no table contains.
const noClass = Class(99)

func TestStrings(t *testing.T) {
	for want, v := range map[string]fmt.Stringer{
		"Class(99)": Class(99), "Action(9)": Action(9), "Safety(9)": Safety(9), "Outcome(9)": Outcome(9),
		"Mutating": Mutating, "Repeatable": Repeatable, "NotExecuted": OutcomeNotExecuted,
	} {
		assert.Equal(t, want, v.String())
	}
}
