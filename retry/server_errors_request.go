package retry

import (
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
)

const (
	checkedOnReceipt = "Found by the check of the request on receipt, before anything is proposed."
	checkedAtApply   = "Found when the committed request is applied, before its first change; every member finds the same."
	saidByKine       = "kine, which has no leases to renew or to end, says so of the whole method."
)

var requestErrors = []Rule{
	serverError("ErrGRPCEmptyKey", rpctypes.ErrGRPCEmptyKey, Definite, checkedOnReceipt),
	serverError("ErrGRPCKeyNotFound", rpctypes.ErrGRPCKeyNotFound, Definite,
		"A Put that keeps the value or the lease of a key that does not exist, or a request on receipt with an unknown operation; either is found before the first change."),
	serverError("ErrGRPCValueProvided", rpctypes.ErrGRPCValueProvided, Definite, checkedOnReceipt),
	serverError("ErrGRPCLeaseProvided", rpctypes.ErrGRPCLeaseProvided, Definite, checkedOnReceipt),
	serverError("ErrGRPCTooManyOps", rpctypes.ErrGRPCTooManyOps, Definite, checkedOnReceipt),
	serverError("ErrGRPCDuplicateKey", rpctypes.ErrGRPCDuplicateKey, Definite, checkedOnReceipt),
	serverError("ErrGRPCInvalidClientAPIVersion", rpctypes.ErrGRPCInvalidClientAPIVersion, Definite,
		"The interceptor found metadata that is not UTF-8, before the handler ran."),
	serverError("ErrGRPCInvalidSortOption", rpctypes.ErrGRPCInvalidSortOption, Definite, checkedOnReceipt),
	serverError("ErrGRPCCompacted", rpctypes.ErrGRPCCompacted, Definite,
		"A read at, or a compaction to, a revision that is gone; a Txn is checked as a whole before its first change, and the revision does not come back."),
	serverError("ErrGRPCFutureRev", rpctypes.ErrGRPCFutureRev, Definite,
		"A read or a compaction at a revision that the store has not reached; a Txn is checked as a whole before its first change. (A serializable read may find it on a member that is further ahead; whoever asks for one knows.)"),
	serverError("ErrGRPCNoSpace", rpctypes.ErrGRPCNoSpace, Executed,
		"Mostly refused on receipt or because of the NOSPACE alarm; but the quota is compared once more when a write is applied, and the write that crosses it is applied and answered with this error. Repeating is pointless until space is made."),
	serverError("ErrGRPCRequestTooLarge", rpctypes.ErrGRPCRequestTooLarge, Definite,
		"The size is compared just before the request would be proposed."),
	serverError("ErrGRPCRequestTooManyRequests", rpctypes.ErrGRPCRequestTooManyRequests, Overloaded,
		"The first step of proposing, taken while too many committed entries wait to be applied: nothing is proposed."),
	serverError("ErrGRPCWatchCanceled", rpctypes.ErrGRPCWatchCanceled, Ambiguous,
		"A watch stream was cut off in the middle of its work; it changes nothing, and the watch engine reopens it at its resume point."),
	serverError("ErrGRPCCanceled", rpctypes.ErrGRPCCanceled, Ambiguous,
		"The server stopped waiting for a request that it had proposed or forwarded."),
	serverError("ErrGRPCDeadlineExceeded", rpctypes.ErrGRPCDeadlineExceeded, Ambiguous,
		"The server's own deadline ended the wait, possibly after the proposal."),
}

var leaseErrors = []Rule{
	serverError("ErrGRPCLeaseNotFound", rpctypes.ErrGRPCLeaseNotFound, Definite,
		"The lease is looked up before the first change. After a repeated LeaseRevoke it means that an earlier attempt, or the lease's end, did the work."),
	serverError("ErrGRPCLeaseExist", rpctypes.ErrGRPCLeaseExist, Definite,
		"The lease is not granted a second time. After a repeated LeaseGrant with an id that the client drew at random it means that an earlier attempt granted it."),
	serverError("ErrGRPCLeaseTTLTooLarge", rpctypes.ErrGRPCLeaseTTLTooLarge, Definite, checkedAtApply),
}

var memberErrors = []Rule{
	serverError("ErrGRPCMemberExist", rpctypes.ErrGRPCMemberExist, Definite, checkedAtApply),
	serverError("ErrGRPCPeerURLExist", rpctypes.ErrGRPCPeerURLExist, Definite, checkedAtApply),
	serverError("ErrGRPCMemberNotEnoughStarted", rpctypes.ErrGRPCMemberNotEnoughStarted, Definite,
		"Checked against the list of members before the change is proposed; the list is the same on every member."),
	serverError("ErrGRPCMemberBadURLs", rpctypes.ErrGRPCMemberBadURLs, Definite, checkedOnReceipt),
	serverError("ErrGRPCMemberNotFound", rpctypes.ErrGRPCMemberNotFound, Definite, checkedAtApply),
	serverError("ErrGRPCMemberNotLearner", rpctypes.ErrGRPCMemberNotLearner, Executed,
		"Only a learner is promoted. A follower that forwards MemberPromote repeats it itself, so that this may also mean that the first of its attempts did the work; repeating is pointless either way."),
	serverError("ErrGRPCLearnerNotReady", rpctypes.ErrGRPCLearnerNotReady, Definite,
		"The leader compares the learner's progress before it proposes the promotion."),
	serverError("ErrGRPCTooManyLearners", rpctypes.ErrGRPCTooManyLearners, Definite, checkedAtApply),
	serverError("ErrGRPCClusterIDMismatch", rpctypes.ErrGRPCClusterIDMismatch, Definite,
		"Members that compare their hashes say this to each other; nothing is proposed."),
}

// unnamedErrors are error texts of the server without a variable in rpctypes. They arrive
// with code Unknown.
var unnamedErrors = []Rule{
	unnamedError("raft proposal dropped", Overloaded,
		"The member's own Raft refused the proposal before appending or forwarding it: no leader, a transfer of leadership under way, or too much uncommitted data, all of which pass."),
	unnamedError("raft: stopped", Ambiguous,
		"Raft stopped, possibly after it had taken the proposal."),
	unnamedError("not a primary lessor", Refused,
		"A member that thought it was the leader could not confirm it; no lease was renewed."),
	unnamedError("etcdserver: request timed out, leader transfer took too long", Ambiguous,
		"The transfer of leadership was started and may still succeed."),
	unnamedError("etcdserver: unknown method", Definite,
		"The action of a Downgrade request is none that the server knows."),
	unnamedError("auth: permission denied", Definite,
		"The auth store's own text, which etcd up to 3.4 sends for Maintenance; checked before the handler runs."),
	unnamedError("auth: user name is empty", Token,
		"The same for a request without a credential."),
	unnamedError("auth: invalid auth token", Token,
		"The same for a token that has expired or that the member does not know."),
	unnamedError("auth: revision in header is old", Token,
		"The same for a token that is older than the last change of users or roles."),
	unnamedError("lease keep alive is not supported", Definite, saidByKine),
	unnamedError("lease revoke is not supported", Definite, saidByKine),
	unnamedError("lease time to live is not supported", Definite, saidByKine),
	unnamedError("lease leases is not supported", Definite, saidByKine),
}

func unnamedError(message string, class Class, reason string) Rule {
	return Rule{Code: codes.Unknown, Message: message, Class: class, Reason: reason}
}
