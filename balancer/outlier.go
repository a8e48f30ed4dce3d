package balancer

import "time"

const (
	// stallAfter is how long an endpoint must have completed nothing, while another one
	// did, before it is found stalled: two rounds of probes, but for the time that it takes
	// to begin them, and for the usual latency.
	stallAfter = 2*probeRound - probeRound/5
	// deadAfter is how long an endpoint must have given no sign of life, while another one
	// did, before it is found dead: three rounds of probes.
	deadAfter = 3*probeRound - probeRound/5
	// witnessAfter is how long others must have been seen to do what the endpoint does not:
	// after an outage of all one is always the first.
	witnessAfter = probeRound * 3 / 4
	// maxRecovery bounds how long a connection is given to recover after an outage of all,
	// which is as long as the outage lasted: TCP's next retransmission may be that far off.
	maxRecovery = 10 * time.Second
	// outlierFactor is how many times the latency of others, or its own, both are longer:
	// where all are slow nobody is an outlier, and TCP's retransmissions take a round trip
	// longer each.
	outlierFactor = 3
	// maxOwnLatency bounds what an endpoint's own latency can excuse.
	maxOwnLatency = time.Second
)

// tolerance is how much longer an answer may take because of latency.
func tolerance(own, others time.Duration) time.Duration {
	return outlierFactor * max(others, min(own, maxOwnLatency))
}

// recovery is how long others must have been alive before a connection that has been silent
// for so long is given up: for half of that time.
func recovery(silent time.Duration) time.Duration {
	return max(witnessAfter, min(silent/2, maxRecovery))
}

// observation is what has been observed of an endpoint in doubt.
type observation struct {
	// silent is how long a question for a sign of life has been unanswered, 0 if none is.
	silent time.Duration
	// stalled is how long a question for service has been unanswered, 0 if none is.
	stalled time.Duration
	// busy says that a large message is on its way, which answers wait behind.
	busy bool
	// own is the endpoint's usual latency.
	own time.Duration

	// othersAlive is how long another endpoint has been known to have given a sign of life
	// meanwhile, othersServe to have completed work that began meanwhile, 0 for none; others
	// is the latency of those.
	othersAlive, othersServe time.Duration
	others                   time.Duration
}

// verdict is what an observation shows.
type verdict uint8

const (
	// undecided: the endpoint may be in order, or nobody else has shown that it is not.
	undecided verdict = iota
	// stalled: the endpoint completes nothing, others do.
	stalled
	// dead: the endpoint gives no sign of life, others do.
	dead
)

// evaluate is outlier detection: it compares an endpoint with others. Nothing is found at
// fault without a witness, as then it is the network, the cluster or this very process that
// is in trouble:
//
//	silent       stalled       othersAlive     othersServe     busy  verdict
//	any          any           any             any             yes   undecided
//	≥ deadAfter  any           ≥ recovery      any             no    dead
//	less         ≥ stallAfter  any             ≥ witnessAfter  no    stalled
//	otherwise                                                        undecided
//
// where deadAfter and stallAfter are longer by the tolerance, and recovery is half of the
// silence.
func evaluate(o observation) verdict {
	more := tolerance(o.own, o.others)
	switch {
	case o.busy:
		return undecided
	case o.silent >= deadAfter+more && o.othersAlive >= recovery(o.silent):
		return dead
	case o.stalled >= stallAfter+more && o.othersServe >= witnessAfter:
		return stalled
	default:
		return undecided
	}
}
