package retry

import (
	"context"
	"errors"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Evidence is what the client saw of an attempt, beside its error.
type Evidence struct {
	// Sent reports whether a stream for the request was created on any
	// connection: only when it is false is it certain that nothing left.
	// For grpc-go: a picker's Done was called with BytesSent true.
	Sent bool
	// Answered reports whether a server has answered the attempt, be it in part. Texts
	// with which grpc-go's client says that it sent nothing, or that it is closed, do not
	// count then: servers and proxies use some of them for other things.
	Answered bool
	// ContextErr is the caller's context error at the time of the failure,
	// nil while the context lives.
	ContextErr error
	// Method is the full method, "/package.Service/Method". When it is set,
	// etcd's error texts count only for etcd's own services, and the method's
	// exceptions apply (see [Rule.Except]). When it is empty, every text
	// counts and no exception does.
	Method string
}

// Classify names the class of an attempt that ended with err.
//
// It accepts what an attempt can end with: nil, a gRPC status, a
// [rpctypes.EtcdError], a context error, an [*UnknownOutcomeError], each bare
// or wrapped. An error that is none of these counts as a status with code
// Unknown. The tables are consulted from the most specific to the least:
// [ServerErrors], [LocalErrors], [Codes].
//
// An ended context wins over every class that would lead to another attempt,
// but not over [Definite] and [Executed], which say more, nor over [Closed].
func Classify(err error, ev Evidence) Class {
	if err == nil {
		return OK
	}
	c := classify(err, ev)
	if ev.ContextErr == nil {
		return c
	}
	switch c {
	case Definite, Executed, Closed:
		return c
	default:
		return Ended
	}
}

func classify(err error, ev Evidence) Class {
	if isUnknownOutcome(err) {
		return Ambiguous
	}
	code, msg := codeAndMessage(err)
	if r, ok := lookupServerError(code, msg, ev.Method); ok {
		return r.classFor(ev.Method)
	}
	if r, ok := lookupLocalError(code, msg); ok && (!ev.Answered || r.Class != Definite && r.Class != Closed) {
		return r.Class
	}
	if !ev.Sent {
		return classOfUnsent(code)
	}
	return codeRule(code).Class
}

// CodeOf returns the code of an error for [Policy.Retryable]. It is that of
// [ServerErrors] where the text is known, since the status on the wire may have
// lost it, Unavailable where no gRPC server answered ([SpeaksNoGRPC]), and the
// status code otherwise; nil has code OK.
func CodeOf(err error) codes.Code {
	if err == nil {
		return codes.OK
	}
	code, msg := codeAndMessage(err)
	if r, ok := lookupServerError(code, msg, ""); ok {
		return r.Code
	}
	if speaksNoGRPC(code, msg) {
		return codes.Unavailable
	}
	return code
}

// classOfUnsent classifies a failure before the request left. The codes of
// connections, picks and inner timeouts pass with time. The others are
// verdicts of a picker, of per-call credentials or of the codec on this call,
// and would be spoken again.
func classOfUnsent(code codes.Code) Class {
	switch code {
	case codes.Unavailable, codes.Canceled, codes.DeadlineExceeded:
		return NotSent
	default:
		return Definite
	}
}

func isUnknownOutcome(err error) bool {
	var unknown *UnknownOutcomeError
	return errors.As(err, &unknown)
}

type grpcStatus interface{ GRPCStatus() *status.Status }

// codeAndMessage returns what the server, or grpc-go in its place, said. It
// differs from status.FromError in that wrapping does not change the message,
// and that an EtcdError keeps its code.
func codeAndMessage(err error) (codes.Code, string) {
	var withStatus grpcStatus
	if errors.As(err, &withStatus) {
		if s := withStatus.GRPCStatus(); s.Code() != codes.OK {
			return s.Code(), s.Message()
		}
		return codes.Unknown, err.Error()
	}
	var etcdErr rpctypes.EtcdError
	switch {
	case errors.As(err, &etcdErr):
		return etcdErr.Code(), etcdErr.Error()
	case errors.Is(err, context.Canceled):
		return codes.Canceled, err.Error()
	case errors.Is(err, context.DeadlineExceeded):
		return codes.DeadlineExceeded, err.Error()
	default:
		return codes.Unknown, err.Error()
	}
}
