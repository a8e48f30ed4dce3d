package channel

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/quorate/quorate/balancer"
	"github.com/quorate/quorate/health"
	"github.com/quorate/quorate/internal/pause"
	"github.com/quorate/quorate/retry"
)

// ErrClosed is the error of calls on a closed Channel: gRPC's error for a closed
// ClientConn.
var ErrClosed = status.Error(codes.Canceled, "grpc: the client connection is closing")

// cutError is the error of a cut attempt. A member returns ErrTimeout in the same
// situation, when its peers do not answer. So errors.Is matches ErrTimeout, and the
// message begins with its text; the reason follows.
type cutError struct{ reason error }

func (e *cutError) Error() string { return e.GRPCStatus().Err().Error() }

// GRPCStatus returns the code Unavailable, as for a broken connection.
func (e *cutError) GRPCStatus() *status.Status {
	return status.New(codes.Unavailable, rpctypes.ErrorDesc(rpctypes.ErrGRPCTimeout)+": "+status.Convert(e.reason).Message())
}

func (e *cutError) Is(target error) bool { return target == rpctypes.ErrTimeout }

// isOfProgram reports whether an error comes from an interceptor of the program, and is not
// that of a context.
func isOfProgram(err error) bool { return hasNoStatus(err) && retry.CodeOf(err) == codes.Unknown }

// hasNoStatus reports whether an error is not gRPC's: it has no status, and is not io.EOF, with which
// a server ends a stream.
func hasNoStatus(err error) bool {
	_, hasStatus := status.FromError(err)
	return !hasStatus && !errors.Is(err, io.EOF)
}

// isTooLarge reports whether a server refused a request on receipt, because of its size. For a response that is too large for
// the client, or for etcd's grpc-proxy, gRPC's error has the same text. The size tells them apart: neither sends requests
// that are larger than the responses that it takes.
func isTooLarge(req any, err error) bool {
	m, ok := req.(proto.Message)
	return ok && status.Code(err) == codes.ResourceExhausted &&
		strings.HasPrefix(rpctypes.ErrorDesc(err), fmt.Sprintf("grpc: received message larger than max (%d vs. ", proto.Size(m)))
}

// isFromEtcd reports whether an error is one of etcd's own, and not of a proxy before it.
func isFromEtcd(err error) bool {
	_, known := errors.AsType[rpctypes.EtcdError](rpctypes.Error(err))
	return known
}

// statements maps the texts of errors with which a member reports its own state to
// evidence: not all of them have a variable for clients.
var statements = map[string]health.Kind{
	rpctypes.ErrorDesc(rpctypes.ErrGRPCNoLeader):               health.Degrading,
	rpctypes.ErrorDesc(rpctypes.ErrGRPCNotSupportedForLearner): health.Restricting,
	rpctypes.ErrorDesc(rpctypes.ErrGRPCStopped):                health.Refusing,
	"raft: stopped": health.Refusing, // the same, while a removed member stops
	rpctypes.ErrorDesc(rpctypes.ErrGRPCNotCapable): health.Refusing,

	// The member timed out waiting for the cluster; the request may be old.
	rpctypes.ErrorDesc(rpctypes.ErrGRPCTimeout):                    health.Suspicious,
	rpctypes.ErrorDesc(rpctypes.ErrGRPCTimeoutDueToLeaderFail):     health.Suspicious,
	rpctypes.ErrorDesc(rpctypes.ErrGRPCTimeoutDueToConnectionLost): health.Suspicious,
}

// badGateway is how gRPC's error begins when a proxy does not reach its server: HTTP status 502, 503 or 504.
const badGateway = "unexpected HTTP status code received from server: 50"

// classify returns the evidence in an error of a member; ok is false if there is none.
func classify(err error) (kind health.Kind, ok bool) {
	if kind, ok = statements[rpctypes.ErrorDesc(err)]; ok {
		return kind, true
	}
	switch {
	case retry.SpeaksNoGRPC(err):
		return health.Refusing, true // it is not an etcd member
	case retry.CodeOf(err) == codes.Unavailable && strings.HasPrefix(rpctypes.ErrorDesc(err), badGateway):
		return health.Suspicious, true
	}
	return 0, false
}

// isFault reports whether the server or the network is at fault, and not the request or a
// caller that gave up. An expired deadline counts as the caller's; the duration of the
// call is evidence enough.
func isFault(err error) bool {
	switch retry.Classify(err, retry.Evidence{Sent: true}) {
	case retry.Refused, retry.NoLeader, retry.Overloaded:
		return true
	case retry.Ambiguous:
		code := retry.CodeOf(err)
		return code != codes.Canceled && code != codes.DeadlineExceeded
	default:
		return false
	}
}

// note records the end of a call.
func (c *client) note(err error) {
	switch {
	case err == nil || isServed(err):
		c.failing.Store(nil)
	case retry.CodeOf(err) != codes.Canceled: // the caller's, or Close
		c.failing.Store(&err)
	}
}

// isServed reports whether an error shows that a member handles the requests of this client:
// it refused one for what it asks.
func isServed(err error) bool {
	switch retry.CodeOf(err) {
	case codes.InvalidArgument:
		served := rpctypes.Error(err)
		return !errors.Is(served, rpctypes.ErrUserEmpty) && !errors.Is(served, rpctypes.ErrAuthFailed)
	case codes.NotFound, codes.AlreadyExists, codes.PermissionDenied, codes.FailedPrecondition, codes.OutOfRange:
		return true
	default:
		return false
	}
}

// Failing returns the error of the latest call if every call since the latest success failed, and
// nil otherwise. Calls to a named member do not count.
func (c *Channel) Failing() error {
	if f := c.failing.Load(); f != nil {
		return *f
	}
	return nil
}

// refusals holds the endpoints whose members refused a piece of work for a reason that
// concerns only that member.
type refusals struct {
	endpoints []*balancer.Endpoint
	unknown   int // refusals by an unknown endpoint
}

func (r *refusals) add(ep *balancer.Endpoint) {
	if ep == nil {
		r.unknown++
	} else if !slices.Contains(r.endpoints, ep) {
		r.endpoints = append(slices.DeleteFunc(r.endpoints, isRemoved), ep)
	}
}

// byAll reports whether every endpoint has refused, ep the latest. If ep is nil, for unknown, width
// refusals by unknown endpoints count as all.
func (r *refusals) byAll(ep *balancer.Endpoint, width int) bool {
	return r.complete(ep, width, func(*balancer.Endpoint) bool { return false })
}

// byAllReachable is like byAll, but ignores unreachable endpoints.
func (r *refusals) byAllReachable(ep *balancer.Endpoint, width int) bool {
	return r.complete(ep, width, func(other *balancer.Endpoint) bool {
		return other.Unreachable() || other.State() == health.Dead
	})
}

// byAllUsable is like byAll for an ep that is known, but ignores endpoints that do not serve calls of every kind.
func (r *refusals) byAllUsable(ep *balancer.Endpoint) bool {
	return r.complete(ep, 1, func(other *balancer.Endpoint) bool { return other.Unreachable() || !other.State().Usable() })
}

// complete reports whether every endpoint that is not excused has refused. It is false
// while a client has no endpoints because they are being replaced.
func (r *refusals) complete(ep *balancer.Endpoint, width int, excused func(*balancer.Endpoint) bool) bool {
	if ep == nil {
		return r.unknown >= width
	}
	siblings := ep.Siblings()
	for _, other := range siblings {
		if !slices.Contains(r.endpoints, other) && !excused(other) {
			return false
		}
	}
	return len(siblings) > 0
}

// isRemoved reports whether an endpoint is no longer one of the client's.
func isRemoved(ep *balancer.Endpoint) bool { return pause.Closed(ep.Removed()) }
