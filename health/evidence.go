package health

import (
	"context"
	"fmt"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Kind is the kind of a piece of evidence.
type Kind uint8

const (
	// Connected means: a connection was established, including the handshake.
	Connected Kind = iota
	// Disconnected means: a connection was lost, or the server is closing it.
	Disconnected
	// ConnectFailed means: no connection could be established, and there is no other.
	ConnectFailed
	// Answered means: a call, a stream or a probe was answered. The server is alive.
	Answered
	// Served means: the server completed work, in time.
	Served
	// Suspicious means: a call or a stream is silent for longer than usual, or failed with an error
	// that suggests a fault.
	Suspicious
	// Late means: the server completed work, but much later than others do.
	Late
	// Stalled means: the server completes no work while others do.
	Stalled
	// Unresponsive means: the server gives no sign of life while others do.
	Unresponsive
	// Degrading means: the server reports that it can serve local calls only, for now.
	Degrading
	// Restricting means: the server reports that its role lets it serve local calls only.
	Restricting
	// Refusing means: the server reports that it does not serve.
	Refusing
	// Removed means: the endpoint was removed from the client.
	Removed

	kinds = int(Removed) + 1
)

var kindNames = [kinds]string{
	Connected: "connected", Disconnected: "disconnected", ConnectFailed: "connect failed", Answered: "answered",
	Served: "served", Suspicious: "suspicious", Late: "late", Stalled: "stalled", Unresponsive: "unresponsive",
	Degrading: "degrading", Restricting: "restricting", Refusing: "refusing", Removed: "removed",
}

// String returns the kind's name: "connected", "disconnected", "connect failed",
// "answered", "served", "suspicious", "late", "stalled", "unresponsive", "degrading",
// "restricting", "refusing" or "removed".
func (k Kind) String() string {
	if int(k) < kinds {
		return kindNames[k]
	}
	return fmt.Sprintf("Kind(%d)", uint8(k))
}

// MarshalText returns the kind's name.
func (k Kind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// Evidence is one observation of an endpoint.
type Evidence struct {
	Kind Kind
	At   time.Time
	// Often is set if many calls, not probes alone, were late (Late) or failed (Suspicious).
	Often bool
	// Err is the error behind the evidence, nil if there is none.
	Err error
	// Detail is a description for humans, such as which call was silent for how long. It
	// holds no keys, values or secrets.
	Detail string
}

// String returns the kind, with the detail and the error if there are any.
func (e Evidence) String() string {
	s := e.Kind.String()
	if e.Detail != "" {
		s += ": " + e.Detail
	}
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Prober probes the server at the other end of a connection. Probes share the connection
// with its calls. A Prober is used for many endpoints concurrently.
//
// Probe returns when it has reported everything or ctx has ended. It calls report
// synchronously, once for each finding, as soon as it has it. A Probe that reports nothing
// was not answered.
type Prober interface {
	Probe(ctx context.Context, conn grpc.ClientConnInterface, report func(Report))
}

// Report is a finding of a Prober. Each report shows that the server is alive. Of several
// in one probe the latest counts.
type Report struct {
	// Kind is Answered, Served, Degrading, Restricting or Refusing.
	Kind Kind
	// Err is the server's error, if it returned one.
	Err error
	// Detail is a description for humans.
	Detail string
	// Info is the server's report about itself, nil if there is none. See [Status.Info].
	Info any
	// Term is the leader's term that the server named with Served, 0 if there is none.
	Term uint64
}

// FromServer reports whether a call's result comes from a server, even if it is an error.
// It is for Probers, which have only the error to decide where it was made.
//
// The client itself returns Unavailable and Internal for a broken connection, and either
// side returns Canceled and DeadlineExceeded when a deadline passes: these do not count.
// Every other code comes from a server.
func FromServer(err error) bool {
	return !slices.Contains([]codes.Code{codes.Unavailable, codes.Internal, codes.Canceled, codes.DeadlineExceeded}, status.Code(err))
}
