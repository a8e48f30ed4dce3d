package retry

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"google.golang.org/grpc/codes"
)

// Policy is gRPC's retryPolicy, with gRPC's names. A zero field (nil for
// RetryableStatusCodes) means its default, so that Policy{} is the default policy.
//
// A policy never decides whether a call may be sent twice; [Decide] does.
type Policy struct {
	// MaxAttempts bounds the attempts of a call, including the first; 0, the default,
	// means that only the caller's context bounds them. A count is a poor bound during an
	// election: a hundred refusals may take a second or a minute. 1 disables repetitions.
	MaxAttempts int
	// InitialBackoff is the upper bound of the delay before the first repetition. Default
	// 10 ms: several round trips within a region, and little compared with an election,
	// which takes a second with etcd's defaults.
	InitialBackoff time.Duration
	// MaxBackoff is the maximum of the growing bound. Default 1 s, etcd's default
	// election timeout: longer delays would prolong an outage.
	MaxBackoff time.Duration
	// BackoffMultiplier is the growth of the bound per repetition. Default 2:
	// from 10 ms to 1 s in seven steps.
	BackoffMultiplier float64
	// Jitter is the fraction by which a delay varies: 0.2 means ±20 % of the bound, as
	// gRFC A6 has it. 0, the default, means full jitter, uniform between 0 and the bound:
	// clients that failed together are spread over the whole interval. Values above 1
	// count as 1.
	Jitter float64
	// RetryableStatusCodes are the codes after which a [Repeatable] call is repeated
	// although its attempt may have been executed ([Ambiguous]). Default: UNAVAILABLE,
	// CANCELED, DEADLINE_EXCEEDED: etcd and broken connections return these for calls
	// that may succeed on another member. The field affects neither [Mutating] calls nor
	// attempts that were certainly not executed; those are repeated after any code.
	RetryableStatusCodes []codes.Code
}

var defaultPolicy = Policy{
	InitialBackoff:       10 * time.Millisecond,
	MaxBackoff:           time.Second,
	BackoffMultiplier:    2,
	RetryableStatusCodes: []codes.Code{codes.Unavailable, codes.Canceled, codes.DeadlineExceeded},
}

func (p Policy) withDefaults() Policy {
	if p.InitialBackoff <= 0 {
		p.InitialBackoff = defaultPolicy.InitialBackoff
	}
	if p.MaxBackoff <= 0 {
		p.MaxBackoff = defaultPolicy.MaxBackoff
	}
	if !(p.BackoffMultiplier > 0) || math.IsInf(p.BackoffMultiplier, 1) {
		p.BackoffMultiplier = defaultPolicy.BackoffMultiplier
	}
	if p.RetryableStatusCodes == nil {
		p.RetryableStatusCodes = defaultPolicy.RetryableStatusCodes
	}
	return p
}

// Retryable reports whether a [Repeatable] call may be repeated after an
// [Ambiguous] attempt that ended with code, see [CodeOf]. No other decision
// depends on it.
func (p Policy) Retryable(code codes.Code) bool {
	return slices.Contains(p.withDefaults().RetryableStatusCodes, code)
}

// Delay returns how long to wait before the given repetition: 1 is the first, and smaller
// numbers count as 1. The delay is random, up to the bound
//
//	min(MaxBackoff, InitialBackoff × BackoffMultiplier^(retry-1))
//
// with the jitter of the policy.
func (p Policy) Delay(retry int) time.Duration {
	p = p.withDefaults()
	bound := p.bound(retry)
	if p.Jitter > 0 {
		return scale(bound, 1+min(p.Jitter, 1)*(2*rand.Float64()-1))
	}
	return scale(bound, rand.Float64())
}

// bound computes in floating point, which cannot overflow.
func (p Policy) bound(retry int) time.Duration {
	growth := math.Pow(p.BackoffMultiplier, float64(max(retry, 1)-1))
	bound := float64(p.InitialBackoff) * growth
	if bound >= float64(p.MaxBackoff) {
		return p.MaxBackoff
	}
	return time.Duration(bound)
}

// scale multiplies a duration and saturates at its maximum.
func scale(d time.Duration, factor float64) time.Duration {
	product := float64(d) * factor
	if product >= math.MaxInt64 {
		return math.MaxInt64
	}
	return time.Duration(product)
}

// HedgingPolicy is gRPC's hedgingPolicy (gRFC A6), with gRPC's names. A hedged call is
// sent to a second endpoint when the response of the first takes longer than usual for
// calls of its shape; the first result counts. The zero value is the default policy.
//
// A policy never decides whether a call may be hedged: only reads are, see
// [SafetyOf]. Unlike in A6 a method may have both a retryPolicy and a
// hedgingPolicy, because a read whose two attempts failed is worth a third.
type HedgingPolicy struct {
	// MaxAttempts is 1 to switch hedging off. 0, the default, and all other values mean
	// 2: a third concurrent attempt helps only when two endpoints of three fail, and then
	// there is no quorum.
	MaxAttempts int
	// HedgingDelay is the least time before the second attempt. Default 0: the time is
	// learnt from the latency of calls of the same shape.
	HedgingDelay time.Duration
	// NonFatalStatusCodes are codes of errors that end the call only if the other attempt
	// fails as well, in addition to those after which the call would be repeated. Default
	// none: if one server returns, for example, that the revision is compacted, the call
	// does not wait for the other.
	NonFatalStatusCodes []codes.Code
}

// Enabled reports whether reads are hedged.
func (p HedgingPolicy) Enabled() bool { return p.MaxAttempts != 1 }

// NonFatal reports whether a call waits for the other attempt after an error with the
// code, see [CodeOf].
func (p HedgingPolicy) NonFatal(code codes.Code) bool {
	return slices.Contains(p.NonFatalStatusCodes, code)
}

type hedgingJSON struct {
	MaxAttempts         *int               `json:"maxAttempts"`
	HedgingDelay        *string            `json:"hedgingDelay"`
	NonFatalStatusCodes *[]json.RawMessage `json:"nonFatalStatusCodes"`
}

func (j *hedgingJSON) parse(field string) (HedgingPolicy, error) {
	var p HedgingPolicy
	if j == nil {
		return p, nil
	}
	if j.MaxAttempts != nil {
		if p.MaxAttempts = *j.MaxAttempts; p.MaxAttempts < 1 {
			return p, fmt.Errorf("%s.maxAttempts: %d; it must be 2 or more, which all mean 2, or 1 to switch hedging off", field, p.MaxAttempts)
		}
	}
	if j.HedgingDelay != nil && *j.HedgingDelay != "0s" {
		if err := parseBackoff(&p.HedgingDelay, j.HedgingDelay, field+".hedgingDelay"); err != nil {
			return p, err
		}
	}
	if j.NonFatalStatusCodes == nil || len(*j.NonFatalStatusCodes) == 0 {
		return p, nil
	}
	var err error
	p.NonFatalStatusCodes, err = parseCodes(*j.NonFatalStatusCodes, field+".nonFatalStatusCodes")
	return p, err
}
