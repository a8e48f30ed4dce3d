package channel

import (
	"testing"

	"github.com/stretchr/testify/assert"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/quorate/quorate/balancer"
	"github.com/quorate/quorate/retry"
)

func rangeOp(serializable bool) *pb.RequestOp {
	return &pb.RequestOp{Request: &pb.RequestOp_RequestRange{RequestRange: &pb.RangeRequest{Serializable: serializable}}}
}

func TestTraits(t *testing.T) {
	put := &pb.RequestOp{Request: &pb.RequestOp_RequestPut{RequestPut: &pb.PutRequest{}}}
	nested := &pb.RequestOp{Request: &pb.RequestOp_RequestTxn{RequestTxn: &pb.TxnRequest{Success: []*pb.RequestOp{rangeOp(true)}}}}
	for name, tt := range map[string]struct {
		method string
		req    any
		want   traits
	}{
		"get":                {pb.KV_Range_FullMethodName, &pb.RangeRequest{}, traits{class: classGet, hedged: true}},
		"range":              {pb.KV_Range_FullMethodName, &pb.RangeRequest{RangeEnd: []byte("z")}, traits{class: classRange, hedged: true}},
		"serializable get":   {pb.KV_Range_FullMethodName, &pb.RangeRequest{Serializable: true}, traits{need: balancer.Local, class: classSerializableGet, hedged: true}},
		"serializable range": {pb.KV_Range_FullMethodName, &pb.RangeRequest{Serializable: true, RangeEnd: []byte("z")}, traits{need: balancer.Local, class: classSerializableRange, hedged: true}},
		"no range request":   {pb.KV_Range_FullMethodName, "", traits{}},

		"txn of reads":        {pb.KV_Txn_FullMethodName, &pb.TxnRequest{Success: []*pb.RequestOp{rangeOp(false)}}, traits{class: classReadTxn, hedged: true}},
		"serializable txn":    {pb.KV_Txn_FullMethodName, &pb.TxnRequest{Success: []*pb.RequestOp{rangeOp(true)}, Failure: []*pb.RequestOp{rangeOp(true)}}, traits{need: balancer.Local, class: classSerializableTxn, hedged: true}},
		"one linearizable":    {pb.KV_Txn_FullMethodName, &pb.TxnRequest{Success: []*pb.RequestOp{rangeOp(true)}, Failure: []*pb.RequestOp{rangeOp(false)}}, traits{class: classReadTxn, hedged: true}},
		"nested serializable": {pb.KV_Txn_FullMethodName, &pb.TxnRequest{Success: []*pb.RequestOp{nested}}, traits{class: classReadTxn, hedged: true}},
		"txn that writes":     {pb.KV_Txn_FullMethodName, &pb.TxnRequest{Failure: []*pb.RequestOp{put}}, traits{prompt: true}},
		"no txn request":      {pb.KV_Txn_FullMethodName, nil, traits{prompt: true}},

		"put":                   {pb.KV_Put_FullMethodName, &pb.PutRequest{}, traits{prompt: true}},
		"compaction":            {pb.KV_Compact_FullMethodName, &pb.CompactionRequest{}, traits{}},
		"members":               {pb.Cluster_MemberList_FullMethodName, &pb.MemberListRequest{}, traits{need: balancer.Local, hedged: true}},
		"members, linearizable": {pb.Cluster_MemberList_FullMethodName, &pb.MemberListRequest{Linearizable: true}, traits{hedged: true}},
		"status":                {pb.Maintenance_Status_FullMethodName, &pb.StatusRequest{}, traits{need: balancer.Local}},
		"snapshot":              {pb.Maintenance_Snapshot_FullMethodName, nil, traits{need: balancer.Local, lane: balancer.Bulk}},
		"range stream":          {pb.KV_RangeStream_FullMethodName, nil, traits{lane: balancer.Bulk}},
		"watch":                 {pb.Watch_Watch_FullMethodName, nil, traits{lane: balancer.Streams}},
		"keepalive":             {pb.Lease_LeaseKeepAlive_FullMethodName, nil, traits{lane: balancer.Streams}},
		"a method of others":    {"/helloworld.Greeter/SayHello", nil, traits{prompt: true}},
	} {
		assert.Equal(t, tt.want, traitsOf(tt.method, tt.req), name)
	}
}

// Whatever is sent twice at the same time may be executed twice.
func TestOnlyRepeatableCallsAreHedged(t *testing.T) {
	for _, m := range retry.Methods() {
		for _, req := range []any{nil, &pb.RangeRequest{}, &pb.TxnRequest{}, &pb.LeaseGrantRequest{}, &pb.MemberListRequest{}} {
			if traitsOf(m.Name, req).hedged {
				assert.Equal(t, retry.Repeatable, retry.SafetyOf(m.Name, req), m.Name)
			}
		}
	}
}

func TestLanesOfCallers(t *testing.T) {
	calls := newTestCaller(nil, nil)
	streams := newStreams(calls)
	for method, want := range map[string][2]balancer.Lane{
		pb.KV_Range_FullMethodName:             {balancer.Calls, balancer.Streams},
		pb.Watch_Watch_FullMethodName:          {balancer.Streams, balancer.Streams},
		pb.Lease_LeaseKeepAlive_FullMethodName: {balancer.Streams, balancer.Streams},
		pb.Maintenance_Snapshot_FullMethodName: {balancer.Bulk, balancer.Bulk},
		"/v3lockpb.Lock/Lock":                  {balancer.Calls, balancer.Streams},
	} {
		assert.Equal(t, want, [2]balancer.Lane{calls.traitsOf(method, nil).lane, streams.traitsOf(method, nil).lane}, method)
	}
}
