package health

import "fmt"

// State is what is held of an endpoint. The zero value is Unknown.
type State uint8

const (
	// Unknown endpoints have not shown anything yet. They are used like Serving ones.
	Unknown State = iota
	// Serving endpoints answer.
	Serving
	// Suspected endpoints are silent for longer than they usually are. They are probed,
	// and others are preferred meanwhile.
	Suspected
	// Slow endpoints answer, but so much later than the others that those are preferred.
	Slow
	// Lagging endpoints are alive but do not do their work, while others do: a member cut
	// off from its peers that has not noticed yet, or one that defragments its store.
	Lagging
	// NoLeader endpoints are members that say that they have no leader. They can serve
	// serializable reads, and nothing else.
	NoLeader
	// Learner endpoints are members without a vote. They can serve serializable reads, and
	// nothing else.
	Learner
	// NotServing endpoints say that they do not serve.
	NotServing
	// Draining endpoints are no longer among the client's: what runs there may end,
	// nothing new goes there.
	Draining
	// Dead endpoints did not answer probes. Their connections are closed, and they are
	// used again once a probe over a new one showed what they can do.
	Dead

	states = int(Dead) + 1
)

var stateNames = [states]string{
	Unknown: "unknown", Serving: "serving", Suspected: "suspected", Slow: "slow", Lagging: "lagging",
	NoLeader: "no leader", Learner: "learner", NotServing: "not serving", Draining: "draining", Dead: "dead",
}

// String returns the state's name: "unknown", "serving", "suspected", "slow", "lagging",
// "no leader", "learner", "not serving", "draining" or "dead".
func (s State) String() string {
	if int(s) < states {
		return stateNames[s]
	}
	return fmt.Sprintf("State(%d)", uint8(s))
}

// MarshalText returns the state's name.
func (s State) MarshalText() ([]byte, error) { return []byte(s.String()), nil }
