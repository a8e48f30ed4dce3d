package retry

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"google.golang.org/grpc/codes"
)

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
