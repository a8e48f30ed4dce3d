package health

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Prober asks the server at the other end of a connection how it is. Probes travel over
// the connection in question, beside the calls on it. A Prober is used for many endpoints
// at the same time.
//
// Probe returns when it has reported everything, or when ctx has ended. It calls report
// from its own goroutine, for each thing that it learns, as soon as it does, and not after
// it has returned. A Probe that reported nothing was not answered.
type Prober interface {
	Probe(ctx context.Context, conn grpc.ClientConnInterface, report func(Report))
}

// Report is what a Prober learnt. Each report shows that the server is alive. Of several
// in one probe the latest counts.
type Report struct {
	// Kind is Answered, Served, Degrading, Restricting or Refusing.
	Kind Kind
	// Err is the server's answer if it was an error.
	Err error
	// Detail says more, for people.
	Detail string
	// Info is what the server reported of itself; nil for nothing. See [Status.Info].
	Info any
}

// FromServer reports whether the outcome of a call shows a server that answered, be it with
// an error. It is for Probers, which see an error and nothing else that tells where it was
// made.
//
// Unavailable and Internal are what this side makes of a broken connection; Canceled and
// DeadlineExceeded are what either side says when a deadline passes. They do not count.
// Every other code is one that a server chose.
func FromServer(err error) bool {
	switch status.Code(err) {
	case codes.Unavailable, codes.Internal, codes.Canceled, codes.DeadlineExceeded:
		return false
	default:
		return true
	}
}
