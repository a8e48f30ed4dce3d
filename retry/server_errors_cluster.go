package retry

import "go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

const timedOutAfterProposal = "The server timed out waiting for a request that it had proposed or forwarded; it may still be applied."

var authErrors = []Rule{
	serverError("ErrGRPCRootUserNotExist", rpctypes.ErrGRPCRootUserNotExist, Definite, checkedAtApply),
	serverError("ErrGRPCRootRoleNotExist", rpctypes.ErrGRPCRootRoleNotExist, Definite, checkedAtApply),
	serverError("ErrGRPCUserAlreadyExist", rpctypes.ErrGRPCUserAlreadyExist, Definite, checkedAtApply),
	serverError("ErrGRPCUserEmpty", rpctypes.ErrGRPCUserEmpty, Token,
		"The request has no credential although authentication is on; this is checked before the first change. (UserAdd without a name gets it too: there a new token does not help, and nothing was executed either.)"),
	serverError("ErrGRPCUserNotFound", rpctypes.ErrGRPCUserNotFound, Definite, checkedAtApply),
	serverError("ErrGRPCRoleAlreadyExist", rpctypes.ErrGRPCRoleAlreadyExist, Definite, checkedAtApply),
	serverError("ErrGRPCRoleNotFound", rpctypes.ErrGRPCRoleNotFound, Definite, checkedAtApply),
	serverError("ErrGRPCRoleEmpty", rpctypes.ErrGRPCRoleEmpty, Definite, checkedAtApply),
	serverError("ErrGRPCAuthFailed", rpctypes.ErrGRPCAuthFailed, Definite,
		"The password is compared before the token is proposed."),
	serverError("ErrGRPCPermissionNotGiven", rpctypes.ErrGRPCPermissionNotGiven, Definite, checkedAtApply),
	serverError("ErrGRPCPermissionDenied", rpctypes.ErrGRPCPermissionDenied, Definite,
		"Permissions are checked before the first change, for a Txn for all its operations at once."),
	serverError("ErrGRPCRoleNotGranted", rpctypes.ErrGRPCRoleNotGranted, Definite, checkedAtApply),
	serverError("ErrGRPCPermissionNotGranted", rpctypes.ErrGRPCPermissionNotGranted, Definite, checkedAtApply),
	serverError("ErrGRPCAuthNotEnabled", rpctypes.ErrGRPCAuthNotEnabled, Definite,
		"Checked before the token is proposed: authentication is off."),
	serverError("ErrGRPCInvalidAuthToken", rpctypes.ErrGRPCInvalidAuthToken, Token,
		"The token is read before anything is proposed; it has expired, or the member does not know it."),
	serverError("ErrGRPCInvalidAuthMgmt", rpctypes.ErrGRPCInvalidAuthMgmt, Definite, checkedAtApply),
	serverError("ErrGRPCAuthOldRevision", rpctypes.ErrGRPCAuthOldRevision, Token,
		"Users or roles changed after the token was made; a write is refused before its first change, and a read is discarded."),
}

// clusterErrors report the state of the member or of the cluster.
var clusterErrors = []Rule{
	func() Rule {
		r := serverError("ErrGRPCNoLeader", rpctypes.ErrGRPCNoLeader, NoLeader,
			"The interceptor refuses a call that requires a leader before the handler runs, and ends such streams, which only read; calls that would be forwarded to the leader fail before that. MemberPromote is the exception: it may have been forwarded already.")
		r.Except = methodMemberPromote
		return r
	}(),
	serverError("ErrGRPCNotLeader", rpctypes.ErrGRPCNotLeader, Refused,
		"MoveLeader is served by the leader alone; the others refuse at once."),
	serverError("ErrGRPCLeaderChanged", rpctypes.ErrGRPCLeaderChanged, Ambiguous,
		"A linearizable read, or a lease's time to live, lost its leader. Known servers return it for reads only, so the careful class costs nothing: reads are repeated."),
	serverError("ErrGRPCNotCapable", rpctypes.ErrGRPCNotCapable, Refused,
		"The interceptor of a member that does not know the cluster's version yet refuses before the handler runs."),
	serverError("ErrGRPCStopped", rpctypes.ErrGRPCStopped, Ambiguous,
		"The member stopped while it waited for the result of a proposal."),
	serverError("ErrGRPCTimeout", rpctypes.ErrGRPCTimeout, Ambiguous, timedOutAfterProposal),
	serverError("ErrGRPCTimeoutDueToLeaderFail", rpctypes.ErrGRPCTimeoutDueToLeaderFail, Ambiguous, timedOutAfterProposal),
	serverError("ErrGRPCTimeoutDueToConnectionLost", rpctypes.ErrGRPCTimeoutDueToConnectionLost, Ambiguous, timedOutAfterProposal),
	serverError("ErrGRPCTimeoutWaitAppliedIndex", rpctypes.ErrGRPCTimeoutWaitAppliedIndex, Overloaded,
		"The leader has a second's work or more still to apply; LeaseTimeToLive and LeaseKeepAlive check this before they read the lease."),
	serverError("ErrGRPCUnhealthy", rpctypes.ErrGRPCUnhealthy, Refused,
		"This member is not connected to enough others for a safe membership change, and proposes nothing; another member may be."),
	serverError("ErrGRPCCorrupt", rpctypes.ErrGRPCCorrupt, Definite,
		"While the CORRUPT alarm is on, no member applies a write; the alarm goes through the log, so every member agrees on which writes those are."),
	serverError("ErrGRPCNotSupportedForLearner", rpctypes.ErrGRPCNotSupportedForLearner, Refused,
		"The interceptor of a learner refuses before the handler runs; a voter accepts."),
	serverError("ErrGRPCBadLeaderTransferee", rpctypes.ErrGRPCBadLeaderTransferee, Definite,
		"The target of MoveLeader is no voter; found before the transfer starts."),
}

var downgradeErrors = []Rule{
	serverError("ErrGRPCWrongDowngradeVersionFormat", rpctypes.ErrGRPCWrongDowngradeVersionFormat, Definite, checkedOnReceipt),
	serverError("ErrGRPCInvalidDowngradeTargetVersion", rpctypes.ErrGRPCInvalidDowngradeTargetVersion, Definite,
		"The target is compared with the cluster's version before anything is proposed."),
	serverError("ErrGRPCClusterVersionUnavailable", rpctypes.ErrGRPCClusterVersionUnavailable, Definite,
		"Checked before anything is proposed; only Downgrade with action VALIDATE says it, which changes nothing."),
	serverError("ErrGRPCDowngradeInProcess", rpctypes.ErrGRPCDowngradeInProcess, Definite,
		"Checked before anything is proposed."),
	serverError("ErrGRPCNoInflightDowngrade", rpctypes.ErrGRPCNoInflightDowngrade, Definite,
		"Checked before anything is proposed."),
}
