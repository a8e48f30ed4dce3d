package retry

import (
	"slices"
	"strings"

	"google.golang.org/grpc/codes"
)

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
	localError(codes.ResourceExhausted, "grpc: received message larger than max", Executed,
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
