package health

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Prober asks the server at the other end of a connection how it is. Probes travel over
// the connection whose health is in question, beside the calls on it. A Prober is used
// for many endpoints at the same time.
//
// Probe returns when it has told everything, or when ctx has ended. It calls tell, from
// its own goroutine, for each thing it learns, as soon as it does: that the server is
// alive may be known long before it is known whether it does its work. It must not call
// tell after it returned. A Probe that told nothing was missed.
type Prober interface {
	Probe(ctx context.Context, conn grpc.ClientConnInterface, tell func(Report))
}

// Report is what a Prober learnt. Each report shows that the server is alive. Of several
// in one probe the later knows better.
type Report struct {
	// Kind is Answered, Served, Leaderless, NonVoting or Refusing.
	Kind Kind
	// Err is the server's answer if it was an error; nil if Kind is Served.
	Err error
	// Role is what the server said of itself; nil if it said nothing of that.
	Role *Role
}

// Role is what a member of a cluster says of itself.
type Role struct {
	// ID is the member's, Leader that of the one it takes for its leader, 0 for none.
	ID, Leader uint64
	// Term is the raft term.
	Term uint64
	// Applied is the raft index that the member has applied.
	Applied uint64
	// Learner says that the member has no vote.
	Learner bool
	// Version is that of the server, "" if unknown.
	Version string
	// Alarms are the names of the alarms that are raised, such as "NOSPACE", each once.
	Alarms []string
}

// IsLeader reports whether the member leads.
func (r Role) IsLeader() bool { return r.Leader != 0 && r.Leader == r.ID }

// FromServer reports whether the outcome of a call shows a server that answered, be it with
// an error. It is for Probers, whose calls return an error and nothing else that would show
// where it was made, so that its code has to tell.
//
// Unavailable and Internal are what this side says of a broken connection; Canceled and
// DeadlineExceeded are what either side says when a deadline passes, and the servers' clocks
// run ahead of ours as often as not. They do not count. Every other code is one that a
// server chose.
func FromServer(err error) bool {
	switch status.Code(err) {
	case codes.Unavailable, codes.Internal, codes.Canceled, codes.DeadlineExceeded:
		return false
	default:
		return true
	}
}
