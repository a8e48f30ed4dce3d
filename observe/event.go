package observe

import (
	"time"

	"github.com/quorate/quorate/health"
)

// Lane names the connection to an endpoint that an attempt uses.
type Lane string

const (
	// LaneCalls is that of calls.
	LaneCalls Lane = "calls"
	// LaneStreams is that of watches and other streams that live long.
	LaneStreams Lane = "streams"
	// LaneBulk is that of snapshots and other large transfers.
	LaneBulk Lane = "bulk"
)

// Lanes returns all lanes.
func Lanes() []Lane { return []Lane{LaneCalls, LaneStreams, LaneBulk} }

// Pick says which endpoint an attempt was given.
type Pick struct {
	Endpoint string
	Method   string // full name
	Lane     Lane
}

// Resolution says what a resolver told a channel.
type Resolution struct {
	// Target is the channel's, as "dns:///backend:50051".
	Target string
	// Endpoints is how many there are now.
	Endpoints int
	// Err is why there are none, or why they may be out of date; nil for a new list.
	Err error
}

// Ejection says that an endpoint is not used any more.
type Ejection struct {
	Endpoint string
	// State is the one that it is in, and Evidence what led to it.
	State    health.State
	Evidence health.Evidence
}

// Readmission says that an endpoint is used again.
type Readmission struct {
	Endpoint string
	// After is for how long it was ejected.
	After time.Duration
}

// Retry says that a call or the opening of a stream failed and will be repeated.
type Retry struct {
	Method string // full name
	// Endpoint is where it failed, "" if none was picked.
	Endpoint string
	// Class is the name of the retry.Class of the error.
	Class string
	Err   error
}

// Failover says that a call or stream which failed at one endpoint goes on at another.
type Failover struct {
	Method   string // full name
	From, To string // endpoints
	// Err is what it failed with at From.
	Err error
}

// Hedge says that a read was sent to a second endpoint.
type Hedge struct {
	Method string // full name
	// First is the endpoint whose answer takes long, Second the other one.
	First, Second string
}

// UnknownOutcome says that a write may or may not have been executed.
type UnknownOutcome struct {
	Method string // full name
	// Endpoint is where it was sent, "" if that is not known.
	Endpoint string
	Err      error
}

// WatchResumption reports that watches resumed on another stream.
type WatchResumption struct {
	// Endpoint is the one that the new stream leads to, "" if that is not known.
	Endpoint string
	// Watches is the number of resumed watches; watches that share a stream break
	// together.
	Watches int
	// Gap is the time between the end of the old stream and the first sign of life of a
	// watch on the new one.
	Gap time.Duration
}

// LeaseRenewal reports the renewal of a lease.
type LeaseRenewal struct {
	ID int64
	// Margin is the time that was left to the lease when the answer arrived, as far as the
	// client could know: from the arrival to the end of the TTL that began when the
	// request of the answer before was sent. It is negative if the answer came after that,
	// and the lease lives all the same because the leader counts from a later moment.
	// About two thirds of the TTL are normal.
	Margin time.Duration
	// TTL is the TTL that the server granted.
	TTL time.Duration
}

// LeaseLoss reports that a lease under keepalive has ended, or may have.
type LeaseLoss struct {
	ID int64
	// Err is rpctypes.ErrLeaseNotFound if the server returned that, and otherwise why the
	// lease was not renewed in time.
	Err error
}
