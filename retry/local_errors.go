package retry

import (
	"strings"

	"google.golang.org/grpc/codes"
)

// LocalErrors returns the error texts of grpc-go's client that prove more than their
// code. They are matched by code and prefix. For all other texts of grpc-go the code
// suffices. If another version of grpc-go changes a text, its rule no longer matches and
// the code counts. That is safe: no mutating call is repeated for it, and no unknown
// outcome is reported as known.
func LocalErrors() []Rule {
	return append([]Rule(nil), localErrors...)
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
	{Code: codes.Internal, Message: notGRPC + "400", Prefix: true, Class: Refused, Reason: refusedByHTTP},
	{Code: codes.Unauthenticated, Message: notGRPC + "401", Prefix: true, Class: Refused, Reason: refusedByHTTP},
	{Code: codes.PermissionDenied, Message: notGRPC + "403", Prefix: true, Class: Refused, Reason: refusedByHTTP},
	{Code: codes.Unimplemented, Message: notGRPC + "404", Prefix: true, Class: Refused, Reason: refusedByHTTP},
	{Code: codes.Unknown, Message: notGRPC + "405", Prefix: true, Class: Refused, Reason: refusedByHTTP},
	{
		Code: codes.Canceled, Message: "grpc: the client connection is closing", Prefix: true, Class: Closed,
		Reason: "The channel was closed. A call that was in flight may have been executed. (A proxy may return it for a connection of its own; the text does not count if a server has answered.)",
	},
	{
		Code: codes.Unavailable, Message: "the connection is draining", Prefix: true, Class: Refused,
		Reason: "The server ended the connection and named the last stream that it will process; the call's is a later one. grpc-go repeats such a call once by itself. (A proxy that forwards the error of its own connection has not executed the call either: etcd's grpc-proxy repeats no write that it has sent.)",
	},
	{
		Code: codes.ResourceExhausted, Message: "trying to send message larger than max", Prefix: true, Class: Definite,
		Reason: "The request is over the client's own limit: its stream was opened, but no message was sent. (A server over its limit for responses may return the same after executing; the text does not count if a server has answered.)",
	},
	{
		Code: codes.Internal, Message: "grpc: error while marshaling", Prefix: true, Class: Definite,
		Reason: "The request cannot be encoded: its stream was opened, but no message was sent.",
	},
	{
		Code: codes.ResourceExhausted, Message: "grpc: received message larger than max", Prefix: true, Class: Executed,
		Reason: "The response is over the client's limit, so the request was executed; or the request is over the server's limit, which gives the same error, and was not executed. Either way a repetition ends the same way.",
	},
	{
		Code: codes.Internal, Message: "grpc: failed to unmarshal the received message", Prefix: true, Class: Executed,
		Reason: "The response cannot be decoded, so the request was executed; or the server could not decode the request, which gives the same error. Either way a repetition ends the same way.",
	},
	{
		Code: codes.Internal, Message: "cardinality violation: received no response message", Prefix: true, Class: Executed,
		Reason: "The server reported success without a result.",
	},
}

func lookupLocalError(code codes.Code, message string) (*Rule, bool) {
	for i := range localErrors {
		if r := &localErrors[i]; code == r.Code && strings.HasPrefix(message, r.Message) {
			return r, true
		}
	}
	return nil, false
}
