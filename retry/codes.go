package retry

import "google.golang.org/grpc/codes"

// CodeRule is the class of a status with an unknown text, for a request that may have
// been sent.
type CodeRule struct {
	Code  codes.Code
	Class Class
	// Reason says in one sentence why.
	Reason string
}

// Codes returns the class of each gRPC code for a status whose text is in no
// other table. A code that gRPC does not define is [Ambiguous].
//
// When nothing was sent, Unavailable, Canceled and DeadlineExceeded are
// [NotSent] instead, and every other code is [Definite].
func Codes() []CodeRule {
	return append([]CodeRule(nil), codeRules...)
}

func codeRule(code codes.Code) CodeRule {
	if int(code) < len(codeRules) {
		return codeRules[code]
	}
	return CodeRule{Code: code, Class: Ambiguous, Reason: "gRPC does not define this code."}
}

const (
	saidByHandler   = "The server rejected the request, and would reject a repetition."
	saidInTheMiddle = "The error may occur in the middle of the work."
)

// codeRules has the rule of each code, in the order of the codes.
var codeRules = []CodeRule{
	{
		codes.OK, Ambiguous,
		"An error with this code contradicts itself and proves nothing.",
	},
	{
		codes.Canceled, Ambiguous,
		"The caller's context lives, so the server, a proxy or an inner context gave up, possibly in the middle of the work.",
	},
	{
		codes.Unknown, Ambiguous,
		"Anything without a code ends here.",
	},
	{codes.InvalidArgument, Definite, saidByHandler},
	{
		codes.DeadlineExceeded, Ambiguous,
		"The caller's context lives, so the server's or a proxy's own deadline passed. etcd returns it when it could not pass a request to Raft in time, and does not know whether Raft accepted it.",
	},
	{codes.NotFound, Definite, saidByHandler},
	{codes.AlreadyExists, Definite, saidByHandler},
	{codes.PermissionDenied, Definite, saidByHandler},
	{
		codes.ResourceExhausted, Ambiguous,
		"Servers and proxies return it before the execution, gRPC's own limits after it.",
	},
	{codes.FailedPrecondition, Definite, saidByHandler},
	{codes.Aborted, Ambiguous, saidInTheMiddle},
	{codes.OutOfRange, Definite, saidByHandler},
	{
		codes.Unimplemented, Definite,
		"The gRPC library of the server returns it for an unknown method.",
	},
	{
		codes.Internal, Ambiguous,
		"Broken framing, a reset stream or a fault of the server, at any time.",
	},
	{
		codes.Unavailable, Ambiguous,
		"Every call on a broken connection gets it, executed or not.",
	},
	{codes.DataLoss, Ambiguous, saidInTheMiddle},
	{
		codes.Unauthenticated, Definite,
		"A credential was refused before the request was handled; etcd's own errors for this are in the table of server errors.",
	},
}
