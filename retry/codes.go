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
	return append([]CodeRule(nil), codeRules[:]...)
}

func codeRule(code codes.Code) CodeRule {
	if int(code) < len(codeRules) {
		return codeRules[code]
	}
	return CodeRule{Code: code, Class: Ambiguous, Reason: "gRPC does not define this code."}
}

const (
	saidByHandler   = "A verdict on the request, which a repetition would meet again."
	saidInTheMiddle = "It may be said in the middle of the work."
)

var codeRules = [...]CodeRule{
	codes.OK: {
		codes.OK, Ambiguous,
		"An error with this code contradicts itself and proves nothing.",
	},
	codes.Canceled: {
		codes.Canceled, Ambiguous,
		"The caller's context lives, so the server, a proxy or an inner context gave up, possibly in the middle of the work.",
	},
	codes.Unknown: {
		codes.Unknown, Ambiguous,
		"Anything without a code ends here.",
	},
	codes.InvalidArgument: {codes.InvalidArgument, Definite, saidByHandler},
	codes.DeadlineExceeded: {
		codes.DeadlineExceeded, Ambiguous,
		"The caller's context lives, so the server's or a proxy's own deadline passed. etcd says it when it could not hand a request to Raft in time, and cannot tell whether Raft took it.",
	},
	codes.NotFound:         {codes.NotFound, Definite, saidByHandler},
	codes.AlreadyExists:    {codes.AlreadyExists, Definite, saidByHandler},
	codes.PermissionDenied: {codes.PermissionDenied, Definite, saidByHandler},
	codes.ResourceExhausted: {
		codes.ResourceExhausted, Ambiguous,
		"Servers and proxies say it before, gRPC's own limits after the execution.",
	},
	codes.FailedPrecondition: {codes.FailedPrecondition, Definite, saidByHandler},
	codes.Aborted:            {codes.Aborted, Ambiguous, saidInTheMiddle},
	codes.OutOfRange:         {codes.OutOfRange, Definite, saidByHandler},
	codes.Unimplemented: {
		codes.Unimplemented, Definite,
		"The server library says it of a method that the server does not have.",
	},
	codes.Internal: {
		codes.Internal, Ambiguous,
		"Broken framing, a reset stream or a fault of the server, at any time.",
	},
	codes.Unavailable: {
		codes.Unavailable, Ambiguous,
		"A connection that broke says it of every call that was on it, executed or not.",
	},
	codes.DataLoss: {codes.DataLoss, Ambiguous, saidInTheMiddle},
	codes.Unauthenticated: {
		codes.Unauthenticated, Definite,
		"A credential was refused before the request was handled; etcd's own way to say so is in the table of server errors.",
	},
}
