package retry

import (
	"slices"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

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
	return slices.Clone(methods)
}

var methods = []Method{
	repeatable(pb.KV_Range_FullMethodName, readsOnly),
	repeatable(pb.KV_RangeStream_FullMethodName,
		"It only reads; once parts were delivered it continues after the last key at the first revision, and is not repeated."),
	mutating(pb.KV_Put_FullMethodName, writesKeys),
	mutating(pb.KV_DeleteRange_FullMethodName, writesKeys),
	{
		Name: pb.KV_Txn_FullMethodName, content: txnReads,
		ByContent: "there is no put and no delete in either branch, at any depth of nesting",
		Reason:    "With a write in it, it makes a revision each time, and a second execution may undo what others wrote in between.",
	},
	mutating(pb.KV_Compact_FullMethodName,
		"A second execution fails with ErrCompacted where the first succeeded."),

	repeatable(pb.Watch_Watch_FullMethodName, streamOfEngine),

	{
		Name: pb.Lease_LeaseGrant_FullMethodName, content: grantHasID,
		ByContent: "the request's ID is not 0, so that the client chose it",
		Reason:    "Where the server chooses the id, every execution makes one more lease.",
	},
	repeatable(pb.Lease_LeaseRevoke_FullMethodName,
		"A second execution fails with ErrLeaseNotFound, which means that the lease is gone as intended."),
	repeatable(pb.Lease_LeaseKeepAlive_FullMethodName,
		streamOfEngine+" Renewing a lease twice does no harm."),
	repeatable(pb.Lease_LeaseTimeToLive_FullMethodName, readsOnly),
	repeatable(pb.Lease_LeaseLeases_FullMethodName, readsOnly),

	mutating(pb.Cluster_MemberAdd_FullMethodName,
		"The member's id depends on the time of the request, so a second execution adds another member, or fails with ErrPeerURLExist."),
	mutating(pb.Cluster_MemberRemove_FullMethodName, changesCluster),
	mutating(pb.Cluster_MemberUpdate_FullMethodName, changesCluster),
	repeatable(pb.Cluster_MemberList_FullMethodName, readsOnly),
	mutating(methodMemberPromote,
		"A second execution fails with ErrMemberNotLearner where the first succeeded."),

	repeatable(pb.Maintenance_Alarm_FullMethodName, namesItsOutcome),
	repeatable(pb.Maintenance_Status_FullMethodName, readsOnly),
	mutating(pb.Maintenance_Defragment_FullMethodName,
		"It changes no data but blocks the member for its duration; a second one doubles that."),
	repeatable(pb.Maintenance_Hash_FullMethodName, readsOnly),
	repeatable(pb.Maintenance_HashKV_FullMethodName, readsOnly),
	repeatable(pb.Maintenance_Snapshot_FullMethodName,
		"It only reads; a broken one restarts from the beginning, since parts of two snapshots do not fit together."),
	repeatable(pb.Maintenance_MoveLeader_FullMethodName,
		"The request names the new leader; in a second execution it already leads."),
	mutating(pb.Maintenance_Downgrade_FullMethodName,
		"It starts or ends a job of the whole cluster."),

	mutating(pb.Auth_AuthEnable_FullMethodName, changesAuth),
	mutating(pb.Auth_AuthDisable_FullMethodName, changesAuth),
	repeatable(pb.Auth_AuthStatus_FullMethodName, readsOnly),
	repeatable(pb.Auth_Authenticate_FullMethodName,
		"Every execution creates a token; an unused token expires."),
	mutating(pb.Auth_UserAdd_FullMethodName, changesAuth),
	repeatable(pb.Auth_UserGet_FullMethodName, readsOnly),
	repeatable(pb.Auth_UserList_FullMethodName, readsOnly),
	mutating(pb.Auth_UserDelete_FullMethodName, changesAuth),
	mutating(pb.Auth_UserChangePassword_FullMethodName, changesAuth),
	mutating(pb.Auth_UserGrantRole_FullMethodName, changesAuth),
	mutating(pb.Auth_UserRevokeRole_FullMethodName, changesAuth),
	mutating(pb.Auth_RoleAdd_FullMethodName, changesAuth),
	repeatable(pb.Auth_RoleGet_FullMethodName, readsOnly),
	repeatable(pb.Auth_RoleList_FullMethodName, readsOnly),
	mutating(pb.Auth_RoleDelete_FullMethodName, changesAuth),
	mutating(pb.Auth_RoleGrantPermission_FullMethodName, changesAuth),
	mutating(pb.Auth_RoleRevokePermission_FullMethodName, changesAuth),
}

func repeatable(name, reason string) Method {
	return Method{Name: name, Safety: Repeatable, Reason: reason}
}

func mutating(name, reason string) Method { return Method{Name: name, Reason: reason} }

var methodsByName = func() map[string]*Method {
	byName := make(map[string]*Method, len(methods))
	for i := range methods {
		byName[methods[i].Name] = &methods[i]
	}
	return byName
}()

// Safety is whether a call may be sent more than once.
type Safety uint8

const (
	// Mutating calls must be executed at most once: they are sent again only
	// when it is certain that no attempt was or will be executed.
	Mutating Safety = iota
	// Repeatable calls may be executed any number of times: they only read, or are
	// idempotent.
	Repeatable
)

// String returns the name of the constant, or "Safety(n)" for any other value.
func (s Safety) String() string {
	return nameOf("Safety", []string{Mutating: "Mutating", Repeatable: "Repeatable"}, int(s))
}

// SafetyOf returns the safety of one call: of the method, given as
// "/package.Service/Method", or of its content if the safety depends on that (Txn,
// LeaseGrant; see [Method.ByContent]). The request is read, not retained. A method that
// is not in [Methods], and a request of an unexpected type, are [Mutating].
func SafetyOf(method string, req any) Safety {
	m, ok := methodsByName[method]
	if !ok {
		return Mutating
	}
	if m.content != nil && m.content(req) {
		return Repeatable
	}
	return m.Safety
}

func txnReads(req any) bool {
	txn, ok := req.(*pb.TxnRequest)
	return ok && txn != nil && onlyReads(txn)
}

func onlyReads(txn *pb.TxnRequest) bool {
	for _, branch := range [2][]*pb.RequestOp{txn.GetSuccess(), txn.GetFailure()} {
		for _, op := range branch {
			switch r := op.GetRequest().(type) {
			case *pb.RequestOp_RequestRange:
			case *pb.RequestOp_RequestTxn:
				if !onlyReads(r.RequestTxn) {
					return false
				}
			default:
				return false
			}
		}
	}
	return true
}

// grantHasID reports whether the client chose the lease's id, so that a second
// execution is answered with ErrLeaseExist instead of a second lease.
func grantHasID(req any) bool {
	grant, ok := req.(*pb.LeaseGrantRequest)
	return ok && grant.GetID() != 0
}
