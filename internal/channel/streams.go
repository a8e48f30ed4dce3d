package channel

import (
	"google.golang.org/grpc"

	"github.com/quorate/quorate/balancer"
	"github.com/quorate/quorate/retry"
)

// Streams carries the client's long-lived streams over connections of their
// own: a watch that replays history does not stand in the way of a Put, by flow
// control or by bytes in the socket, and a burst of large reads does not delay
// the renewal of a lease. It has the options, tokens and endpoints of its
// Channel, ends with it, and connects with the first stream.
//
// All streams share a retry budget, which is not that of the calls. A stream
// that is refused for as long as it is tried must not make calls wait that
// others would serve, and failing calls must not hold up the stream that keeps
// leases alive.
type Streams struct{ *caller }

var _ grpc.ClientConnInterface = (*Streams)(nil)

// Streams returns what carries the channel's long-lived streams, the same each time.
func (c *Channel) Streams() *Streams { return c.streams }

func newStreams(calls *caller) *Streams {
	own := *calls
	own.shared = calls.ownBudget()
	own.lane = balancer.Streams
	return &Streams{&own}
}

// ownBudget returns a copy whose callers share a budget of their own.
func (s *shared) ownBudget() *shared {
	own := *s
	own.budget = retry.NewBudget(s.config.Throttling)
	return &own
}
