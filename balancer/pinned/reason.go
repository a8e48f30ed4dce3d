package pinned

import (
	"fmt"

	"github.com/quorate/quorate/health"
)

// Reason says why an endpoint was given up. The zero value is None.
type Reason uint8

const (
	// None means that nothing speaks against the endpoint.
	None Reason = iota
	// Disconnected means that the connection was lost, or the server closes it.
	Disconnected
	// Dead means that the endpoint does not answer at all.
	Dead
	// Suspected means that the endpoint was silent for longer than it usually is, and that
	// another was there to be used.
	Suspected
	// Slow means that the endpoint answers much later than it should.
	Slow
	// Lagging means that the endpoint is alive and does not do its work.
	Lagging
	// Degraded means that the server reports that it can serve local calls only, for now.
	Degraded
	// Restricted means that the role of the server lets it serve local calls only.
	Restricted
	// NotServing means that the server says that it does not serve.
	NotServing
	// Removed means that the endpoint is no longer one of the client's.
	Removed
)

var reasonNames = [...]string{
	None: "none", Disconnected: "disconnected", Dead: "dead", Suspected: "suspected", Slow: "slow", Lagging: "lagging",
	Degraded: "degraded", Restricted: "restricted", NotServing: "not serving", Removed: "removed",
}

// String returns the reason's name: "none", "disconnected", "dead", "suspected", "slow",
// "lagging", "degraded", "restricted", "not serving" or "removed".
func (r Reason) String() string {
	if int(r) < len(reasonNames) {
		return reasonNames[r]
	}
	return fmt.Sprintf("Reason(%d)", uint8(r))
}

// byState are the states that speak against an endpoint.
var byState = map[health.State]Reason{
	health.Suspected: Suspected, health.Slow: Slow, health.Lagging: Lagging, health.Degraded: Degraded,
	health.Restricted: Restricted, health.NotServing: NotServing, health.Draining: Removed, health.Dead: Dead,
}

// useful reports whether something can still be had of an endpoint that has the reason
// against it. It then stays connected until another has taken its place.
func (r Reason) useful() bool {
	switch r {
	case None, Suspected, Slow, Lagging, Degraded, Restricted:
		return true
	default:
		return false
	}
}
