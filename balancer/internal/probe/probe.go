// Package probe evaluates what a round of probes has shown of a suspected endpoint.
package probe

import "time"

const (
	// Round is the length of a probe round while a verdict is possible. Three rounds,
	// with the 0.1 s of silence before them, outlast the loss of two packets in a row: TCP
	// retransmits after 0.2 and 0.6 s. Longer round trips extend both limits: see
	// Evaluate.
	Round = 190 * time.Millisecond
	// StallAfter is how long an endpoint must have completed nothing, while another one
	// did, before it is found stalled: two probe rounds, minus the time to start them. The
	// usual latency is added, see Evaluate.
	StallAfter = 2*Round - Round/5
	// DeadAfter is how long an endpoint must have given no sign of life, while another one
	// did, before it is found dead: three probe rounds, minus the time to start them.
	DeadAfter = 3*Round - Round/5
	// WitnessAfter is how long others must have done what the endpoint does not: after an
	// outage of all endpoints, one is always the first to recover.
	WitnessAfter = Round * 3 / 4
	// maxRecovery bounds the time that a connection gets to recover after an outage of all
	// endpoints. It grows with the outage, as TCP's retransmission interval does.
	maxRecovery = 10 * time.Second
	// outlierFactor multiplies the latency of others, or its own, in the tolerance added
	// to both limits: where all endpoints are slow none is an outlier, and each TCP
	// retransmission takes a round trip longer.
	outlierFactor = 3
	// maxOwnLatency bounds what an endpoint's own latency can excuse.
	maxOwnLatency = time.Second
)

// Tolerance is how much longer a response may take because of latency.
func Tolerance(own, others time.Duration) time.Duration {
	return outlierFactor * max(others, min(own, maxOwnLatency))
}

// Recovery is how long others must have been alive before a silent connection is closed:
// half of its silence.
func Recovery(silent time.Duration) time.Duration {
	return max(WitnessAfter, min(silent/2, maxRecovery))
}

// Observation is the input of Evaluate: what was observed of a suspected endpoint.
type Observation struct {
	// Silent is how long a liveness check has been unanswered, 0 if none is.
	Silent time.Duration
	// Stalled is how long a service probe has been unanswered, 0 if none is.
	Stalled time.Duration
	// Busy is set while a large message is in transit, which delays responses, or no probe can be sent.
	Busy bool
	// Own is the endpoint's usual latency.
	Own time.Duration

	// OthersAlive is for how long another endpoint has given signs of life meanwhile, and
	// OthersServe for how long another has completed work that began meanwhile; 0 for none.
	// Others is their latency.
	OthersAlive, OthersServe time.Duration
	Others                   time.Duration
}

// Verdict is the result of Evaluate.
type Verdict uint8

const (
	// Undecided means that the endpoint may work, or that there is no witness.
	Undecided Verdict = iota
	// Stalled endpoints complete nothing, others do.
	Stalled
	// Silent endpoints give no sign of life, others do, but TCP may not have repeated what was
	// lost in an outage.
	Silent
	// Dead endpoints give no sign of life, others do.
	Dead
)

// Evaluate is outlier detection: it compares an endpoint with others. There is no verdict
// without a witness: the network, the cluster or this process may be at fault.
//
//	silent       stalled       othersAlive     othersServe     busy  verdict
//	any          any           any             any             yes   undecided
//	≥ DeadAfter  any           ≥ Recovery      any             no    dead
//	any          ≥ StallAfter  any             ≥ WitnessAfter  no    stalled
//	≥ DeadAfter  less          ≥ WitnessAfter  any             no    silent
//	otherwise                                                        undecided
//
// The tolerance is added to DeadAfter and StallAfter.
func Evaluate(o Observation) Verdict {
	more := Tolerance(o.Own, o.Others)
	switch {
	case o.Busy:
		return Undecided
	case o.Silent >= DeadAfter+more && o.OthersAlive >= Recovery(o.Silent):
		return Dead
	case o.Stalled >= StallAfter+more && o.OthersServe >= WitnessAfter:
		return Stalled
	case o.Silent >= DeadAfter+more && o.OthersAlive >= WitnessAfter:
		return Silent
	}
	return Undecided
}
