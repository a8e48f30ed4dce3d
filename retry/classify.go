package retry

import (
	"context"
	"errors"
	"fmt"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Evidence is what the client observed of an attempt, in addition to its error.
type Evidence struct {
	// Sent reports whether a stream for the request was created on any connection: only
	// if it is false is it certain that nothing was sent. For grpc-go: a picker's Done
	// was called with BytesSent true.
	Sent bool
	// Answered reports whether a server has sent any part of a response. If so, the texts
	// of grpc-go's client for "nothing was sent" and "closed" do not count: servers and
	// proxies use some of them with another meaning.
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

// Classify returns the class of an attempt that ended with err.
//
// err may be nil, a gRPC status, a [rpctypes.EtcdError], a context error, an
// [*UnknownOutcomeError], a [*NotSentError], a [*ResponseLostError], bare or wrapped. An error that is none of these counts as a
// status with code Unknown. The tables are consulted from the most specific to the least:
// [ServerErrors], [LocalErrors], [Codes].
//
// If the context has ended, the class is [Ended] instead of any class that would lead to
// another attempt. [Definite], [Executed] and [Closed] stay.
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
	switch {
	case is[*UnknownOutcomeError](err):
		return Ambiguous
	case is[*NotSentError](err):
		return NotSent
	case is[*ResponseLostError](err):
		return Executed
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

// classOfUnsent classifies a failure before the request was sent. The codes of
// connections, picks and inner timeouts are transient. The others come from a picker,
// per-call credentials or the codec, and a repetition would fail in the same way.
func classOfUnsent(code codes.Code) Class {
	switch code {
	case codes.Unavailable, codes.Canceled, codes.DeadlineExceeded:
		return NotSent
	default:
		return Definite
	}
}

// is reports whether an error is one of type E, bare or wrapped.
func is[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}

type grpcStatus interface{ GRPCStatus() *status.Status }

// codeAndMessage returns the status of the server or of grpc-go. Unlike status.FromError,
// it ignores the text of wrapping errors and keeps the code of an EtcdError.
func codeAndMessage(err error) (codes.Code, string) {
	var withStatus grpcStatus
	if errors.As(err, &withStatus) {
		if s := withStatus.GRPCStatus(); s.Code() != codes.OK {
			return s.Code(), s.Message()
		}
		return codes.Unknown, err.Error()
	}
	if known, ok := errors.AsType[rpctypes.EtcdError](err); ok {
		return known.Code(), known.Error()
	}
	switch {
	case errors.Is(err, context.Canceled):
		return codes.Canceled, err.Error()
	case errors.Is(err, context.DeadlineExceeded):
		return codes.DeadlineExceeded, err.Error()
	default:
		return codes.Unknown, fmt.Sprint(err) // it may be nil
	}
}
