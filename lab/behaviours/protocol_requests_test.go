package behaviours_test

import (
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/protobuf/proto"
)

// unknownID is the ID of no member.
const unknownID = 5

// keyRequests use each kind of access to a key that alice may read and write, one that she may read, one that she may
// write, and the empty one.
func keyRequests() []proto.Message {
	var all []proto.Message
	for _, k := range []string{"a", "b", "y", ""} {
		key := []byte(k)
		get := &pb.RangeRequest{Key: key}
		all = append(
			all,
			&pb.PutRequest{Key: key, Value: key},
			&pb.PutRequest{Key: key, PrevKv: true},
			&pb.PutRequest{Key: key, Lease: scriptLease},
			&pb.PutRequest{Key: key, Lease: unknownLease},
			get,
			&pb.RangeRequest{Key: key, RangeEnd: []byte("c"), Serializable: true},
			&pb.RangeRequest{Key: key, RangeEnd: []byte("z")},
			&pb.RangeRequest{Key: key, RangeEnd: fromKey(), KeysOnly: true},
			&pb.DeleteRangeRequest{Key: key, PrevKv: true},
			&pb.DeleteRangeRequest{Key: key},
			&pb.TxnRequest{Compare: []*pb.Compare{{Key: key}}},
			&pb.TxnRequest{Success: []*pb.RequestOp{{Request: &pb.RequestOp_RequestRange{RequestRange: get}}}},
			&pb.TxnRequest{Success: []*pb.RequestOp{{Request: &pb.RequestOp_RequestTxn{RequestTxn: &pb.TxnRequest{
				Compare: []*pb.Compare{{Key: key}},
				Failure: []*pb.RequestOp{{Request: &pb.RequestOp_RequestPut{RequestPut: &pb.PutRequest{Key: key}}}},
			}}}}},
			&pb.TxnRequest{Success: []*pb.RequestOp{{}}},
		)
	}
	return append(all, &pb.CompactionRequest{Revision: 2}, &pb.CompactionRequest{Revision: 1e6})
}

const (
	// scriptLease is granted by leaseRequests, the first time.
	scriptLease = 7
	// shortLease is granted and revoked by leaseRequests, within its two seconds.
	shortLease   = 8
	unknownLease = 99
	// tooLong is the first TTL in seconds that etcd refuses.
	tooLong = 9_000_000_001
)

func leaseRequests() []proto.Message {
	return []proto.Message{
		&pb.LeaseGrantRequest{ID: scriptLease, TTL: leaseTTL},
		&pb.LeaseGrantRequest{ID: shortLease, TTL: -1},
		&pb.LeaseRevokeRequest{ID: shortLease},
		&pb.LeaseRevokeRequest{ID: unknownLease},
		&pb.LeaseGrantRequest{ID: 9, TTL: tooLong},
		&pb.PutRequest{Key: []byte("a"), Lease: scriptLease},
		&pb.LeaseLeasesRequest{},
		&pb.LeaseTimeToLiveRequest{ID: scriptLease, Keys: true},
		&pb.LeaseTimeToLiveRequest{ID: scriptLease},
		&pb.LeaseTimeToLiveRequest{ID: unknownLease},
		&pb.PutRequest{Key: []byte("b"), Lease: scriptLease},
		&pb.LeaseTimeToLiveRequest{ID: scriptLease, Keys: true},
		&pb.LeaseLeasesRequest{},
		&pb.LeaseRevokeRequest{ID: scriptLease},
	}
}

func clusterRequests() []proto.Message {
	all := []proto.Message{
		&pb.MemberListRequest{Linearizable: true},
		&pb.MemberListRequest{},
		&pb.MemberRemoveRequest{ID: unknownID},
		&pb.MemberUpdateRequest{ID: unknownID, PeerURLs: []string{"http://peer.test:1"}},
		&pb.MemberPromoteRequest{ID: unknownID},
		&pb.MemberAddRequest{},
	}
	for _, url := range []string{"", "peer.test", "peer.test:1", "http://peer.test", "http://peer.test:1/path", "%"} {
		all = append(all,
			&pb.MemberAddRequest{PeerURLs: []string{url}},
			&pb.MemberUpdateRequest{ID: unknownID, PeerURLs: []string{url}})
	}
	return all
}

func maintenanceRequests() []proto.Message {
	alarm := func(action pb.AlarmRequest_AlarmAction, kind pb.AlarmType) proto.Message {
		return &pb.AlarmRequest{Action: action, MemberID: unknownID, Alarm: kind}
	}
	return []proto.Message{
		&pb.StatusRequest{},
		&pb.HashKVRequest{},
		&pb.HashKVRequest{Revision: 1},
		&pb.HashKVRequest{Revision: 1e6},
		&pb.HashRequest{},
		&pb.DefragmentRequest{},
		&pb.MoveLeaderRequest{TargetID: unknownID},
		alarm(pb.AlarmRequest_GET, pb.AlarmType_NONE),
		alarm(pb.AlarmRequest_ACTIVATE, pb.AlarmType_NONE),
		alarm(pb.AlarmRequest_DEACTIVATE, pb.AlarmType_CORRUPT),
		alarm(pb.AlarmRequest_ACTIVATE, pb.AlarmType_NOSPACE),
		alarm(pb.AlarmRequest_ACTIVATE, pb.AlarmType_NOSPACE),
		alarm(pb.AlarmRequest_GET, pb.AlarmType_NONE),
		alarm(pb.AlarmRequest_GET, pb.AlarmType_CORRUPT),
		&pb.StatusRequest{},
		&pb.PutRequest{Key: []byte("a")},
		&pb.TxnRequest{Failure: []*pb.RequestOp{{Request: &pb.RequestOp_RequestTxn{RequestTxn: &pb.TxnRequest{
			Success: []*pb.RequestOp{{Request: &pb.RequestOp_RequestPut{RequestPut: &pb.PutRequest{Key: []byte("a")}}}},
		}}}}},
		&pb.TxnRequest{Success: []*pb.RequestOp{{Request: &pb.RequestOp_RequestDeleteRange{
			RequestDeleteRange: &pb.DeleteRangeRequest{Key: []byte("a")},
		}}}},
		&pb.LeaseGrantRequest{ID: scriptLease, TTL: leaseTTL},
		alarm(pb.AlarmRequest_DEACTIVATE, pb.AlarmType_NOSPACE),
		&pb.DowngradeRequest{Action: pb.DowngradeRequest_CANCEL},
		&pb.DowngradeRequest{Version: "3.4.0"},
		&pb.DowngradeRequest{Version: "3.7"},
		&pb.DowngradeRequest{Version: "three"},
		&pb.DowngradeRequest{Action: pb.DowngradeRequest_ENABLE, Version: "3.4.0"},
		&pb.DowngradeRequest{Action: 77, Version: "3.6.0"},
	}
}
