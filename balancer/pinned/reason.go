package pinned

import (
	"fmt"

	"github.com/quorate/quorate/health"
)

// Reason is why an endpoint was unpinned. The zero value is None.
type Reason uint8

const (
	// None means that there is no reason to unpin the endpoint.
	None Reason = iota
	// Disconnected means that the connection was lost or is being closed by the server.
	Disconnected
	// Dead means that the endpoint does not answer at all.
	Dead
	// Suspected means that the endpoint was silent for longer than usual while another one
	// was available.
	Suspected
	// Slow means that the endpoint answers much later than it should.
	Slow
	// Lagging means that the endpoint is alive but completes no work.
	Lagging
	// Degraded means that the server reports that it can serve local calls only, for now.
	Degraded
	// Restricted means that the role of the server lets it serve local calls only.
	Restricted
	// NotServing means that the server reports that it does not serve.
	NotServing
	// Removed means that the endpoint is no longer one of the client's.
	Removed
	// Outranked means that an endpoint of a better priority was fit.
	Outranked
)

var reasonNames = [...]string{
	None: "none", Disconnected: "disconnected", Dead: "dead", Suspected: "suspected", Slow: "slow", Lagging: "lagging",
	Degraded: "degraded", Restricted: "restricted", NotServing: "not serving", Removed: "removed",
	Outranked: "outranked",
}

// String returns the reason's name: "none", "disconnected", "dead", "suspected", "slow",
// "lagging", "degraded", "restricted", "not serving", "removed" or "outranked".
func (r Reason) String() string {
	if int(r) < len(reasonNames) {
		return reasonNames[r]
	}
	return fmt.Sprintf("Reason(%d)", uint8(r))
}

// byState maps the states in which an endpoint is unpinned to the reason.
var byState = map[health.State]Reason{
	health.Suspected: Suspected, health.Slow: Slow, health.Lagging: Lagging, health.Degraded: Degraded,
	health.Restricted: Restricted, health.NotServing: NotServing, health.Draining: Removed, health.Dead: Dead,
}

// useful reports whether an endpoint with this reason can still serve some calls. It then
// stays connected until another one has replaced it.
func (r Reason) useful() bool {
	switch r {
	case None, Suspected, Slow, Lagging, Degraded, Restricted:
		return true
	default:
		return false
	}
}
