package retry

import pb "go.etcd.io/etcd/api/v3/etcdserverpb"

// Method is one RPC of etcd.
type Method struct {
	// Name is the full method, "/etcdserverpb.KV/Range".
	Name string
	// Safety of calls of this method. If ByContent is set, calls with that content are
	// [Repeatable] nevertheless.
	Safety Safety
	// ByContent describes the content that makes a call [Repeatable]. It is empty if the
	// safety depends on the method alone.
	ByContent string
	// Reason says in one sentence why.
	Reason string

	content func(req any) bool
}

const methodMemberPromote = pb.Cluster_MemberPromote_FullMethodName

const (
	readsOnly       = "It only reads."
	writesKeys      = "It makes a revision each time, and a second execution may undo what others wrote in between."
	changesCluster  = "A second execution may meet, and change, a membership that others changed in between."
	changesAuth     = "A second execution may undo what another administrator did in between, and fails where the first succeeded."
	streamOfEngine  = "Reopening the stream is safe, but only its engine may do so, because it has the resume point."
	namesItsOutcome = "The request names the target state; a second execution finds it already reached."
)

// Methods returns every RPC of etcd's services with its safety, in the order
// of the service descriptors. Any other method is [Mutating].
func Methods() []Method {
	return append([]Method(nil), methods...)
}

var methods = []Method{
	{Name: pb.KV_Range_FullMethodName, Safety: Repeatable, Reason: readsOnly},
	{
		Name: pb.KV_RangeStream_FullMethodName, Safety: Repeatable,
		Reason: "It only reads; once parts were delivered it continues after the last key at the first revision, and is not repeated.",
	},
	{Name: pb.KV_Put_FullMethodName, Reason: writesKeys},
	{Name: pb.KV_DeleteRange_FullMethodName, Reason: writesKeys},
	{
		Name: pb.KV_Txn_FullMethodName, content: txnReads,
		ByContent: "there is no put and no delete in either branch, at any depth of nesting",
		Reason:    "With a write in it, it makes a revision each time, and a second execution may undo what others wrote in between.",
	},
	{
		Name:   pb.KV_Compact_FullMethodName,
		Reason: "A second execution fails with ErrCompacted where the first succeeded.",
	},

	{Name: pb.Watch_Watch_FullMethodName, Safety: Repeatable, Reason: streamOfEngine},

	{
		Name: pb.Lease_LeaseGrant_FullMethodName, content: grantHasID,
		ByContent: "the request's ID is not 0, so that the client chose it",
		Reason:    "Where the server chooses the id, every execution makes one more lease.",
	},
	{
		Name: pb.Lease_LeaseRevoke_FullMethodName, Safety: Repeatable,
		Reason: "A second execution fails with ErrLeaseNotFound, which means that the lease is gone as intended.",
	},
	{
		Name: pb.Lease_LeaseKeepAlive_FullMethodName, Safety: Repeatable,
		Reason: streamOfEngine + " Renewing a lease twice does no harm.",
	},
	{Name: pb.Lease_LeaseTimeToLive_FullMethodName, Safety: Repeatable, Reason: readsOnly},
	{Name: pb.Lease_LeaseLeases_FullMethodName, Safety: Repeatable, Reason: readsOnly},

	{
		Name:   pb.Cluster_MemberAdd_FullMethodName,
		Reason: "The member's id depends on the time of the request, so a second execution adds another member, or fails with ErrPeerURLExist.",
	},
	{Name: pb.Cluster_MemberRemove_FullMethodName, Reason: changesCluster},
	{Name: pb.Cluster_MemberUpdate_FullMethodName, Reason: changesCluster},
	{Name: pb.Cluster_MemberList_FullMethodName, Safety: Repeatable, Reason: readsOnly},
	{
		Name:   methodMemberPromote,
		Reason: "A second execution fails with ErrMemberNotLearner where the first succeeded.",
	},

	{Name: pb.Maintenance_Alarm_FullMethodName, Safety: Repeatable, Reason: namesItsOutcome},
	{Name: pb.Maintenance_Status_FullMethodName, Safety: Repeatable, Reason: readsOnly},
	{
		Name:   pb.Maintenance_Defragment_FullMethodName,
		Reason: "It changes no data but blocks the member for its duration; a second one doubles that.",
	},
	{Name: pb.Maintenance_Hash_FullMethodName, Safety: Repeatable, Reason: readsOnly},
	{Name: pb.Maintenance_HashKV_FullMethodName, Safety: Repeatable, Reason: readsOnly},
	{
		Name: pb.Maintenance_Snapshot_FullMethodName, Safety: Repeatable,
		Reason: "It only reads; a broken one restarts from the beginning, since parts of two snapshots do not fit together.",
	},
	{
		Name: pb.Maintenance_MoveLeader_FullMethodName, Safety: Repeatable,
		Reason: "The request names the new leader; in a second execution it already leads.",
	},
	{
		Name:   pb.Maintenance_Downgrade_FullMethodName,
		Reason: "It starts or ends a job of the whole cluster.",
	},

	{Name: pb.Auth_AuthEnable_FullMethodName, Reason: changesAuth},
	{Name: pb.Auth_AuthDisable_FullMethodName, Reason: changesAuth},
	{Name: pb.Auth_AuthStatus_FullMethodName, Safety: Repeatable, Reason: readsOnly},
	{
		Name: pb.Auth_Authenticate_FullMethodName, Safety: Repeatable,
		Reason: "Every execution creates a token; an unused token expires.",
	},
	{Name: pb.Auth_UserAdd_FullMethodName, Reason: changesAuth},
	{Name: pb.Auth_UserGet_FullMethodName, Safety: Repeatable, Reason: readsOnly},
	{Name: pb.Auth_UserList_FullMethodName, Safety: Repeatable, Reason: readsOnly},
	{Name: pb.Auth_UserDelete_FullMethodName, Reason: changesAuth},
	{Name: pb.Auth_UserChangePassword_FullMethodName, Reason: changesAuth},
	{Name: pb.Auth_UserGrantRole_FullMethodName, Reason: changesAuth},
	{Name: pb.Auth_UserRevokeRole_FullMethodName, Reason: changesAuth},
	{Name: pb.Auth_RoleAdd_FullMethodName, Reason: changesAuth},
	{Name: pb.Auth_RoleGet_FullMethodName, Safety: Repeatable, Reason: readsOnly},
	{Name: pb.Auth_RoleList_FullMethodName, Safety: Repeatable, Reason: readsOnly},
	{Name: pb.Auth_RoleDelete_FullMethodName, Reason: changesAuth},
	{Name: pb.Auth_RoleGrantPermission_FullMethodName, Reason: changesAuth},
	{Name: pb.Auth_RoleRevokePermission_FullMethodName, Reason: changesAuth},
}

var methodsByName = func() map[string]*Method {
	byName := make(map[string]*Method, len(methods))
	for i := range methods {
		byName[methods[i].Name] = &methods[i]
	}
	return byName
}()
