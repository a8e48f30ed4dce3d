package balancer

import "context"

// Need says what a call asks of an endpoint.
type Need uint8

const (
	// Full service: the default. For etcd these are writes, linearizable reads, watches
	// and leases, which need a member with a vote and a leader.
	Full Need = iota
	// Local service: what the endpoint can do by itself. For etcd these are serializable
	// reads.
	Local

	needs = int(Local) + 1
)

// Lane says which of the connections to an endpoint a call uses. A lane but the first
// has a connection only once a call asked for it.
type Lane uint8

const (
	// Calls are short: the default.
	Calls Lane = iota
	// Streams live long and should not wait behind bytes that others move.
	Streams
	// Bulk moves many bytes: snapshots, large ranges.
	Bulk

	lanes = int(Bulk) + 1
)

// Attempt steers the pick of one attempt of a call, and learns of it. It reaches the
// policy in the context of the attempt; a call without one is made with the zero
// Attempt. It must not be changed while the attempt lasts.
type Attempt struct {
	Need Need
	Lane Lane
	// Class names the calls that usually take as long as this one; "" means the full
	// name of the method. There should be few.
	Class string
	// Avoid are endpoints that are not picked while others can serve the call.
	Avoid []*Endpoint
	// Observer, if set, is told what becomes of the attempt.
	Observer Observer
}

// Observer is told what becomes of an attempt. Its methods may be called from any
// goroutine, must not block, and must not call back into the policy.
type Observer interface {
	// Picked is called when the attempt was given an endpoint, before anything is sent.
	// An error ends the attempt; it should carry a gRPC status, or else it is made again.
	// An attempt can be picked more than once: grpc repeats one that no server has seen.
	Picked(*Endpoint) error
	// NotPicked is called when no endpoint can take the attempt now.
	NotPicked()
	// Ended is called after Picked, once for each, when the attempt is over. sent is
	// false if it is certain that nothing was sent.
	Ended(sent bool)
	// Overdue is called at most once after Picked, when the answer takes longer than
	// those of its class do, and another endpoint can serve the call.
	Overdue()
	// Cut is called when the endpoint turned out to be unable to answer. The attempt
	// should end with that reason; its connection is closed right afterwards.
	Cut(reason error)
}

type attemptKey struct{}

// WithAttempt returns a context for one attempt of a call.
func WithAttempt(ctx context.Context, a *Attempt) context.Context {
	return context.WithValue(ctx, attemptKey{}, a)
}

// IsAttemptKey reports whether key is the one under which the policy looks for the
// Attempt, for contexts that carry it without a layer of their own.
func IsAttemptKey(key any) bool { return key == attemptKey{} }

var plain = new(Attempt)

func attemptFrom(ctx context.Context) *Attempt {
	if a, ok := ctx.Value(attemptKey{}).(*Attempt); ok {
		return a
	}
	return plain
}
