package retry

import (
	"slices"

	"google.golang.org/grpc/codes"
)

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
	return slices.Clone(codeRules)
}

func codeRule(code codes.Code) CodeRule {
	if int(code) < len(codeRules) {
		return codeRules[code]
	}
	return ambiguous(code, "gRPC does not define this code.")
}

const (
	saidByHandler   = "The server rejected the request, and would reject a repetition."
	saidInTheMiddle = "The error may occur in the middle of the work."
)

// codeRules has the rule of each code, in the order of the codes.
var codeRules = []CodeRule{
	ambiguous(codes.OK,
		"An error with this code contradicts itself and proves nothing."),
	ambiguous(codes.Canceled,
		"The caller's context lives, so the server, a proxy or an inner context gave up, possibly in the middle of the work."),
	ambiguous(codes.Unknown,
		"Anything without a code ends here."),
	definite(codes.InvalidArgument, saidByHandler),
	ambiguous(codes.DeadlineExceeded,
		"The caller's context lives, so the server's or a proxy's own deadline passed. etcd returns it when it could not pass a request to Raft in time, and does not know whether Raft accepted it."),
	definite(codes.NotFound, saidByHandler),
	definite(codes.AlreadyExists, saidByHandler),
	definite(codes.PermissionDenied, saidByHandler),
	ambiguous(codes.ResourceExhausted,
		"Servers and proxies return it before the execution, gRPC's own limits after it."),
	definite(codes.FailedPrecondition, saidByHandler),
	ambiguous(codes.Aborted, saidInTheMiddle),
	definite(codes.OutOfRange, saidByHandler),
	definite(codes.Unimplemented,
		"The gRPC library of the server returns it for an unknown method."),
	ambiguous(codes.Internal,
		"Broken framing, a reset stream or a fault of the server, at any time."),
	ambiguous(codes.Unavailable,
		"Every call on a broken connection gets it, executed or not."),
	ambiguous(codes.DataLoss, saidInTheMiddle),
	definite(codes.Unauthenticated,
		"A credential was refused before the request was handled; etcd's own errors for this are in the table of server errors."),
}

func ambiguous(code codes.Code, reason string) CodeRule { return CodeRule{code, Ambiguous, reason} }

func definite(code codes.Code, reason string) CodeRule { return CodeRule{code, Definite, reason} }
