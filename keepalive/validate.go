package keepalive

import (
	"cmp"
	"errors"
	"fmt"
	"time"
)

const (
	// minClientTime is grpc-go's own limit (internal.KeepaliveMinPingTime).
	minClientTime = 10 * time.Second

	// minDuration is the least of all other durations. grpc-go raises Server.Time to
	// it, and a server with a MaxConnectionAge of less than 10 ns panics.
	minDuration = time.Second

	// maxDuration keeps sums of durations from overflowing, which grpc-go does not
	// check.
	maxDuration = 365 * 24 * time.Hour

	// goAwaySlack is how much later than the GOAWAY a call may begin, because both may
	// be on their way at the same time.
	goAwaySlack = time.Second
)

// Check returns nil if a client and a server with these settings are compatible, a
// [*TooManyPingsError] if the server would close the client's connections because of its
// pings, or an error that names an invalid field. Several errors are joined; errors.As
// finds each.
//
// The result does not depend on the traffic of the connections, and no other setting
// hides a fault: Check rejects the client's fourth ping even if the server's own pings or
// MaxConnectionIdle usually come before it.
//
// Check misses one case, if neither end permits pings without a stream, as in [Stock] and
// [Etcd]. The client then pings when a call ends a long silence, and if the call is
// canceled in that instant, the ping arrives after its end. The third such call in a row
// without a response to any other draws the GOAWAY. A server that permits pings without a
// stream avoids this, so permit it on your own servers.
func Check(c Client, s Server) error {
	if err := errors.Join(append(c.faults(), s.faults()...)...); err != nil {
		return err
	}
	return checkPings(c, s)
}

// Validate returns nil if the pair is valid. Otherwise it returns the errors of [Check],
// an error if pings are too rare for IdleTimeout, and an error if MaxConnectionAgeGrace
// is too short for LongestCall. Several errors are joined.
func (p Pair) Validate() error {
	faults := p.Client.faults()
	faults = append(faults, p.Server.faults()...)
	faults = append(faults,
		within("IdleTimeout", p.IdleTimeout, minDuration),
		within("LongestCall", p.LongestCall, 1))
	if err := errors.Join(faults...); err != nil {
		return err
	}
	return errors.Join(checkPings(p.Client, p.Server), p.checkIdleTimeout(), p.checkGrace())
}

func (c Client) faults() []error {
	var faults []error
	if c.Time == 0 && (c.Timeout != 0 || c.PermitWithoutStream) {
		faults = append(faults, errors.New("keepalive: Client.Time is 0, so there are no pings: set it, or leave Client.Timeout and Client.PermitWithoutStream out"))
	}
	if c.Time > 0 && c.Time < minClientTime {
		faults = append(faults, fmt.Errorf("keepalive: Client.Time: %v; grpc-go raises it to %v: write that, or more", c.Time, minClientTime))
	} else {
		faults = append(faults, within("Client.Time", c.Time, minClientTime))
	}
	return append(faults, within("Client.Timeout", c.Timeout, minDuration))
}

func (s Server) faults() []error {
	faults := []error{
		within("Server.MinTime", s.MinTime, 1),
		within("Server.Time", s.Time, minDuration),
		within("Server.Timeout", s.Timeout, minDuration),
		within("Server.MaxConnectionIdle", s.MaxConnectionIdle, minDuration),
		within("Server.MaxConnectionAge", s.MaxConnectionAge, minDuration),
		within("Server.MaxConnectionAgeGrace", s.MaxConnectionAgeGrace, minDuration),
	}
	if s.MaxConnectionAgeGrace != 0 && s.MaxConnectionAge == 0 {
		faults = append(faults, errors.New("keepalive: Server.MaxConnectionAgeGrace has no effect without Server.MaxConnectionAge: set both or neither"))
	}
	return faults
}

// within reports a duration that is neither 0 nor between least and maxDuration.
func within(field string, d, least time.Duration) error {
	switch {
	case d == 0 || d >= least && d <= maxDuration:
		return nil
	case d > maxDuration:
		return fmt.Errorf("keepalive: %s: %v; it must be at most %v, or 0 for the default", field, d, maxDuration)
	default:
		return fmt.Errorf("keepalive: %s: %v; it must be at least %v, or 0 for the default", field, d, least)
	}
}

// checkIdleTimeout checks that something is sent on a quiet connection before
// devices on the path forget it.
func (p Pair) checkIdleTimeout() error {
	if p.IdleTimeout == 0 {
		return nil
	}
	streams := cmp.Or(p.Server.Time, defaultServerTime)
	if p.Client.Time > 0 {
		streams = min(streams, p.Client.Time)
	}
	if streams >= p.IdleTimeout {
		return fmt.Errorf("keepalive: IdleTimeout: a quiet stream is forgotten after %v, the first ping comes after %v: set Client.Time or Server.Time to less than %v, half of it if you can",
			p.IdleTimeout, streams, p.IdleTimeout)
	}
	idle := cmp.Or(p.Server.Time, defaultServerTime)
	if p.Client.PermitWithoutStream {
		idle = min(idle, p.Client.Time)
	}
	if p.Server.MaxConnectionIdle > 0 {
		idle = min(idle, p.Server.MaxConnectionIdle)
	}
	if idle >= p.IdleTimeout {
		return fmt.Errorf("keepalive: IdleTimeout: a connection without calls is forgotten after %v, and nothing is sent on it for %v: "+
			"permit pings without a stream on both ends, or set Server.Time or Server.MaxConnectionIdle to less than %v", p.IdleTimeout, idle, p.IdleTimeout)
	}
	return nil
}

// checkGrace checks that an aged connection outlives its calls.
func (p Pair) checkGrace() error {
	grace, need := p.Server.MaxConnectionAgeGrace, p.LongestCall+goAwaySlack
	if grace == 0 || p.LongestCall == 0 || grace >= need {
		return nil
	}
	return fmt.Errorf("keepalive: Server.MaxConnectionAgeGrace: %v; a call of %v (LongestCall) that begins while the GOAWAY is on its way would be cut: set it to at least %v, or to 0 for no limit",
		grace, p.LongestCall, need)
}
