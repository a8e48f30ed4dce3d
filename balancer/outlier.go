package balancer

import "time"

const (
	// stallAfter is how long an endpoint must have completed nothing, while another one
	// did, before it is found stalled: two probe rounds, minus the time to start them. The
	// usual latency is added, see evaluate.
	stallAfter = 2*probeRound - probeRound/5
	// deadAfter is how long an endpoint must have given no sign of life, while another one
	// did, before it is found dead: three probe rounds, minus the time to start them.
	deadAfter = 3*probeRound - probeRound/5
	// witnessAfter is how long others must have done what the endpoint does not: after an
	// outage of all endpoints, one is always the first to recover.
	witnessAfter = probeRound * 3 / 4
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

// tolerance is how much longer a response may take because of latency.
func tolerance(own, others time.Duration) time.Duration {
	return outlierFactor * max(others, min(own, maxOwnLatency))
}

// recovery is how long others must have been alive before a silent connection is closed:
// half of its silence.
func recovery(silent time.Duration) time.Duration {
	return max(witnessAfter, min(silent/2, maxRecovery))
}

// observation is the input of evaluate: what was observed of a suspected endpoint.
type observation struct {
	// silent is how long a liveness check has been unanswered, 0 if none is.
	silent time.Duration
	// stalled is how long a service probe has been unanswered, 0 if none is.
	stalled time.Duration
	// busy is set while a large message is in transit, which delays responses, or no probe can be sent.
	busy bool
	// own is the endpoint's usual latency.
	own time.Duration

	// othersAlive is for how long another endpoint has given signs of life meanwhile, and
	// othersServe for how long another has completed work that began meanwhile; 0 for none.
	// others is their latency.
	othersAlive, othersServe time.Duration
	others                   time.Duration
}

// verdict is the result of evaluate.
type verdict uint8

const (
	// undecided: the endpoint may work, or there is no witness.
	undecided verdict = iota
	// stalled: the endpoint completes nothing, others do.
	stalled
	// silent: the endpoint gives no sign of life, others do, but TCP may not have repeated what
	// was lost in an outage.
	silent
	// dead: the endpoint gives no sign of life, others do.
	dead
)

// evaluate is outlier detection: it compares an endpoint with others. There is no verdict
// without a witness: the network, the cluster or this process may be at fault.
//
//	silent       stalled       othersAlive     othersServe     busy  verdict
//	any          any           any             any             yes   undecided
//	≥ deadAfter  any           ≥ recovery      any             no    dead
//	any          ≥ stallAfter  any             ≥ witnessAfter  no    stalled
//	≥ deadAfter  less          ≥ witnessAfter  any             no    silent
//	otherwise                                                        undecided
//
// The tolerance is added to deadAfter and stallAfter; recovery is half of the silence.
func evaluate(o observation) verdict {
	more := tolerance(o.own, o.others)
	switch {
	case o.busy:
		return undecided
	case o.silent >= deadAfter+more && o.othersAlive >= recovery(o.silent):
		return dead
	case o.stalled >= stallAfter+more && o.othersServe >= witnessAfter:
		return stalled
	case o.silent >= deadAfter+more && o.othersAlive >= witnessAfter:
		return silent
	default:
		return undecided
	}
}
