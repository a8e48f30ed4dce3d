package channel

import (
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/quorate/quorate/balancer"
	"github.com/quorate/quorate/retry"
)

func rangeOp(serializable bool) *pb.RequestOp {
	return &pb.RequestOp{Request: &pb.RequestOp_RequestRange{RequestRange: &pb.RangeRequest{Serializable: serializable}}}
}

func TestProperties(t *testing.T) {
	put := &pb.RequestOp{Request: &pb.RequestOp_RequestPut{RequestPut: &pb.PutRequest{}}}
	nested := &pb.RequestOp{Request: &pb.RequestOp_RequestTxn{RequestTxn: &pb.TxnRequest{Success: []*pb.RequestOp{rangeOp(true)}}}}
	for name, tt := range map[string]struct {
		method string
		req    any
		want   properties
	}{
		"get":                 {pb.KV_Range_FullMethodName, &pb.RangeRequest{}, properties{shape: shapeGet, hedged: true}},
		"range":               {pb.KV_Range_FullMethodName, &pb.RangeRequest{RangeEnd: []byte("z")}, properties{shape: shapeRange}},
		"serializable get":    {pb.KV_Range_FullMethodName, &pb.RangeRequest{Serializable: true}, properties{need: balancer.Local, shape: serializable + shapeGet, hedged: true}},
		"serializable range":  {pb.KV_Range_FullMethodName, &pb.RangeRequest{Serializable: true, RangeEnd: []byte("z")}, properties{need: balancer.Local, shape: serializable + shapeRange}},
		"range of 10":         {pb.KV_Range_FullMethodName, &pb.RangeRequest{RangeEnd: []byte("z"), Limit: 10}, properties{shape: shapeFew, hedged: true}},
		"range of 100":        {pb.KV_Range_FullMethodName, &pb.RangeRequest{RangeEnd: []byte("z"), Limit: 100}, properties{shape: shapeSome, hedged: true}},
		"range of 101":        {pb.KV_Range_FullMethodName, &pb.RangeRequest{RangeEnd: []byte("z"), Limit: 101}, properties{shape: shapeMany}},
		"count":               {pb.KV_Range_FullMethodName, &pb.RangeRequest{RangeEnd: []byte("z"), CountOnly: true}, properties{shape: shapeCount, hedged: true}},
		"not a range request": {pb.KV_Range_FullMethodName, "", properties{}},

		"txn of reads":        {pb.KV_Txn_FullMethodName, &pb.TxnRequest{Success: []*pb.RequestOp{rangeOp(false)}}, properties{shape: shapeGetTxn, hedged: true}},
		"serializable txn":    {pb.KV_Txn_FullMethodName, &pb.TxnRequest{Success: []*pb.RequestOp{rangeOp(true)}, Failure: []*pb.RequestOp{rangeOp(true)}}, properties{need: balancer.Local, shape: serializable + shapeGetTxn, hedged: true}},
		"one linearizable":    {pb.KV_Txn_FullMethodName, &pb.TxnRequest{Success: []*pb.RequestOp{rangeOp(true)}, Failure: []*pb.RequestOp{rangeOp(false)}}, properties{shape: shapeGetTxn, hedged: true}},
		"nested serializable": {pb.KV_Txn_FullMethodName, &pb.TxnRequest{Success: []*pb.RequestOp{nested}}, properties{shape: shapeReadTxn}},
		"txn that writes":     {pb.KV_Txn_FullMethodName, &pb.TxnRequest{Failure: []*pb.RequestOp{put}}, properties{prompt: true}},
		"not a txn request":   {pb.KV_Txn_FullMethodName, nil, properties{prompt: true}},

		"put":                   {pb.KV_Put_FullMethodName, &pb.PutRequest{}, properties{prompt: true}},
		"compaction":            {pb.KV_Compact_FullMethodName, &pb.CompactionRequest{}, properties{}},
		"members":               {pb.Cluster_MemberList_FullMethodName, &pb.MemberListRequest{}, properties{need: balancer.Local, hedged: true}},
		"members, linearizable": {pb.Cluster_MemberList_FullMethodName, &pb.MemberListRequest{Linearizable: true}, properties{hedged: true}},
		"time to live":          {pb.Lease_LeaseTimeToLive_FullMethodName, &pb.LeaseTimeToLiveRequest{}, properties{hedged: true}},
		"revocation":            {pb.Lease_LeaseRevoke_FullMethodName, &pb.LeaseRevokeRequest{}, properties{prompt: true}},
		"token":                 {pb.Auth_Authenticate_FullMethodName, &pb.AuthenticateRequest{}, properties{prompt: true}},
		"change of the leader":  {pb.Maintenance_MoveLeader_FullMethodName, &pb.MoveLeaderRequest{}, properties{}},
		"hash":                  {pb.Maintenance_HashKV_FullMethodName, &pb.HashKVRequest{}, properties{need: balancer.Local}},
		"status":                {pb.Maintenance_Status_FullMethodName, &pb.StatusRequest{}, properties{need: balancer.Local}},
		"snapshot":              {pb.Maintenance_Snapshot_FullMethodName, nil, properties{need: balancer.Local, conn: balancer.Bulk}},
		"range stream":          {pb.KV_RangeStream_FullMethodName, nil, properties{conn: balancer.Bulk}},
		"watch":                 {pb.Watch_Watch_FullMethodName, nil, properties{conn: balancer.Streams}},
		"keepalive":             {pb.Lease_LeaseKeepAlive_FullMethodName, nil, properties{conn: balancer.Streams}},
		"an unknown method":     {"/helloworld.Greeter/SayHello", nil, properties{prompt: true}},
	} {
		tt.want.safety = retry.SafetyOf(tt.method, tt.req)
		tt.want.write = tt.want.safety == retry.Mutating && tt.want.conn == balancer.Calls
		assert.Equal(t, tt.want, propertiesOf(tt.method, tt.req), name)
	}
}

// A hedged call may be executed twice.
func TestOnlyRepeatableCallsAreHedged(t *testing.T) {
	for _, m := range retry.Methods() {
		for _, req := range []any{nil, &pb.RangeRequest{}, &pb.TxnRequest{}, &pb.LeaseGrantRequest{}, &pb.MemberListRequest{}} {
			if propertiesOf(m.Name, req).hedged {
				assert.Equal(t, retry.Repeatable, retry.SafetyOf(m.Name, req), m.Name)
			}
		}
	}
}

func TestConnClassesOfCallers(t *testing.T) {
	calls := newTestCaller(nil, nil)
	streams := newStreams(calls)
	for method, want := range map[string][2]balancer.ConnClass{
		pb.KV_Range_FullMethodName:             {balancer.Calls, balancer.Streams},
		pb.Watch_Watch_FullMethodName:          {balancer.Streams, balancer.Streams},
		pb.Lease_LeaseKeepAlive_FullMethodName: {balancer.Streams, balancer.Streams},
		pb.Maintenance_Snapshot_FullMethodName: {balancer.Bulk, balancer.Bulk},
		"/v3lockpb.Lock/Lock":                  {balancer.Calls, balancer.Streams},
	} {
		assert.Equal(t, want, [2]balancer.ConnClass{calls.propertiesOf(method, nil).conn, streams.propertiesOf(method, nil).conn}, method)
	}
}

// An object of up to 512 bytes with pointers in it has no header of the allocator's, and one of
// 513 takes 576.
func TestSizeOfACall(t *testing.T) {
	assert.LessOrEqual(t, unsafe.Sizeof(call{}), uintptr(512))
}
