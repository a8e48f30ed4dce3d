package retry

import (
	"slices"
	"strings"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Rule is an error text with a known class.
type Rule struct {
	// Name is the variable of rpctypes that holds the error. It is empty for a
	// text that has none.
	Name string
	// Code and Message are those of the gRPC status.
	Code    codes.Code
	Message string
	// Prefix is set if Message is only the beginning of the text.
	Prefix bool
	Class  Class
	// Except is the full method for which the class is [Ambiguous] instead, because the
	// server may have executed the request before this error. Mostly empty.
	Except string
	// Reason says in one sentence where the error originates, and what that proves.
	Reason string
}

func (r *Rule) classFor(method string) Class {
	if r.Except != "" && r.Except == method {
		return Ambiguous
	}
	return r.Class
}

// ServerErrors returns the errors of an etcd server with a known class: first every
// ErrGRPC… of rpctypes, then texts that have no entry there.
//
// An error is recognised by its whole message, with the code of the table or with
// Unknown. Unknown occurs when a server returns the client-side form of an error, which
// loses the code: etcd does so for "too many requests" and "not enough started members",
// grpc-proxy for all errors.
func ServerErrors() []Rule {
	return slices.Clone(serverErrors)
}

func serverError(name string, err error, class Class, reason string) Rule {
	s, _ := status.FromError(err)
	return Rule{Name: name, Code: s.Code(), Message: s.Message(), Class: class, Reason: reason}
}

var serverErrors = slices.Concat(
	requestErrors, leaseErrors, memberErrors, authErrors, clusterErrors, downgradeErrors, unnamedErrors)

var serverErrorsByMessage = func() map[string]*Rule {
	byMessage := make(map[string]*Rule, len(serverErrors))
	for i := range serverErrors {
		byMessage[serverErrors[i].Message] = &serverErrors[i]
	}
	return byMessage
}()

// lookupServerError finds the rule for a status of an etcd server. A method
// outside etcd's own services has no rule: its service may have made the same
// error in the middle of its work, as etcd's lock and election services do,
// which are composed of several calls.
func lookupServerError(code codes.Code, message, method string) (*Rule, bool) {
	r, ok := serverErrorsByMessage[message]
	if !ok || (code != r.Code && code != codes.Unknown) {
		return nil, false
	}
	if _, listed := methodsByName[method]; method != "" && !listed {
		return nil, false
	}
	return r, true
}

const (
	checkedOnReceipt = "Found by the check of the request on receipt, before anything is proposed."
	checkedAtApply   = "Found when the committed request is applied, before its first change; every member finds the same."
	saidByKine       = "kine says so of a whole method that it does not have, and does nothing else."
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
// with code Unknown. That of a member that stops, as a removed one does, counts as Unavailable: another
// member serves a read.
var unnamedErrors = []Rule{
	unnamedError("raft proposal dropped", Overloaded,
		"The member's own Raft refused the proposal before appending or forwarding it: no leader, a transfer of leadership under way, or too much uncommitted data, all of which pass."),
	{Code: codes.Unavailable, Message: "raft: stopped", Class: Ambiguous, Reason: "Raft stopped, possibly after it had taken the proposal."},
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
	unnamedError("auth: authentication failed, password was given for no password user", Definite,
		"Found before anything is changed."),
	unnamedError("bcrypt: password length exceeds 72 bytes", Definite,
		"The member hashes the password before it proposes the request."),
	unnamedError("lease keep alive is not supported", Definite, saidByKine),
	unnamedError("lease revoke is not supported", Definite, saidByKine),
	unnamedError("lease time to live is not supported", Definite, saidByKine),
	unnamedError("lease leases is not supported", Definite, saidByKine),
	unnamedError("member add is not supported", Definite, saidByKine),
	unnamedError("member remove is not supported", Definite, saidByKine),
	unnamedError("member update is not supported", Definite, saidByKine),
	unnamedError("member promote is not supported", Definite, saidByKine),
	unnamedError("defragment is not supported", Definite, saidByKine),
	unnamedError("downgrade is not supported", Definite, saidByKine),
}

func unnamedError(message string, class Class, reason string) Rule {
	return Rule{Code: codes.Unknown, Message: message, Class: class, Reason: reason}
}

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

// LocalErrors returns the error texts of grpc-go's client that prove more than their
// code. They are matched by code and prefix. For all other texts of grpc-go the code
// suffices. If another version of grpc-go changes a text, its rule no longer matches and
// the code counts. That is safe: no mutating call is repeated for it, and no unknown
// outcome is reported as known.
func LocalErrors() []Rule {
	return slices.Clone(localErrors)
}

// notGRPC is the prefix of grpc-go's error when a web server or a proxy answered, and not
// a gRPC server.
const notGRPC = "unexpected HTTP status code received from server: "

// SpeaksNoGRPC reports whether an error shows that the endpoint does not speak gRPC: its
// address belongs to a web server, or to a proxy without a route for the call. HTTP's
// statuses for a temporary outage (429, 502, 503, 504; their code is Unavailable) do not
// count.
func SpeaksNoGRPC(err error) bool {
	if err == nil {
		return false
	}
	return speaksNoGRPC(codeAndMessage(err))
}

func speaksNoGRPC(code codes.Code, msg string) bool {
	return code != codes.Unavailable && strings.HasPrefix(msg, notGRPC)
}

// refusedByHTTP is the reason why a call that ended with HTTP status 400, 401, 403, 404 or
// 405 was not executed. Other HTTP errors, such as 408, may come from proxies that have
// forwarded the request.
const refusedByHTTP = "A web server, or a proxy that did not forward the call, refused it; no gRPC server returns this."

var localErrors = []Rule{
	localError(codes.Internal, notGRPC+"400", Refused, refusedByHTTP),
	localError(codes.Unauthenticated, notGRPC+"401", Refused, refusedByHTTP),
	localError(codes.PermissionDenied, notGRPC+"403", Refused, refusedByHTTP),
	localError(codes.Unimplemented, notGRPC+"404", Refused, refusedByHTTP),
	localError(codes.Unknown, notGRPC+"405", Refused, refusedByHTTP),
	localError(codes.Canceled, "grpc: the client connection is closing", Closed,
		"The channel was closed. A call that was in flight may have been executed. (A proxy may return it for a connection of its own; the text does not count if a server has answered.)"),
	localError(codes.Unavailable, "the connection is draining", Overloaded,
		"The server ended the connection and named the last stream that it will process; the call's is a later one. A new connection to it may accept the call. grpc-go repeats such a call once by itself. (A proxy that forwards the error of its own connection has not executed the call either: etcd's grpc-proxy repeats no write that it has sent.)"),
	localError(codes.ResourceExhausted, "trying to send message larger than max", Definite,
		"The request is over the client's own limit: its stream was opened, but no message was sent. (A server over its limit for responses may return the same after executing; the text does not count if a server has answered.)"),
	localError(codes.Internal, "header key \"", Definite,
		"The metadata of the request is not what HTTP/2 allows: gRPC refuses the call before it opens a stream."),
	localError(codes.Internal, "grpc: error while marshaling", Definite,
		"The request cannot be encoded: its stream was opened, but no message was sent."),
	localError(codes.Internal, "grpc: Compressor is not installed for requested", Definite,
		"The call names a compressor that the program has not registered: gRPC refuses it before it opens a stream."),
	localError(codes.ResourceExhausted, "grpc: received message ", Executed,
		"The response is over the client's limit, so the request was executed; or the request is over the server's limit, which gives the same error, and was not executed. Either way a repetition ends the same way."),
	localError(codes.Internal, "grpc: failed to unmarshal the received message", Executed,
		"The response cannot be decoded, so the request was executed; or the server could not decode the request, which gives the same error. Either way a repetition ends the same way."),
	localError(codes.Internal, "cardinality violation: received no response message", Executed,
		"The server reported success without a result."),
}

func localError(code codes.Code, prefix string, class Class, reason string) Rule {
	return Rule{Code: code, Message: prefix, Prefix: true, Class: class, Reason: reason}
}

func lookupLocalError(code codes.Code, message string) (*Rule, bool) {
	for i := range localErrors {
		if r := &localErrors[i]; code == r.Code && strings.HasPrefix(message, r.Message) {
			return r, true
		}
	}
	return nil, false
}
