package health

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

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
	switch status.Code(err) {
	case codes.Unavailable, codes.Internal, codes.Canceled, codes.DeadlineExceeded:
		return false
	default:
		return true
	}
}
