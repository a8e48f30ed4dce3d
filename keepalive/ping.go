package keepalive

import (
	"cmp"
	"fmt"
	"time"
)

// What a grpc-go server does to pings, from internal/transport/http2_server.go.
const (
	// maxPingStrikes is how many forbidden pings the server lets pass.
	maxPingStrikes = 2

	// idlePingInterval is how often a client may ping without a call if the server
	// does not permit that.
	idlePingInterval = 2 * time.Hour
)

// allowed is the shortest time between two pings that draws no strike.
func (s Server) allowed(stream bool) time.Duration {
	if !stream && !s.PermitWithoutStream {
		return idlePingInterval
	}
	return cmp.Or(s.MinTime, defaultMinTime)
}

// idleUntilGoAway returns when the server ends a connection on which nothing but the client's
// pings is sent, and how many there were. ok is false if it never does.
//
// The client pings when it has received nothing for Time, and the answer to its ping counts: at the server, two pings are
// never closer than Time, and on a fast network hardly farther. So each ping but the first draws a strike, or none does.
// (Headers, data or trailers that the server sends clear the strikes, and the next ping draws none.)
func idleUntilGoAway(c Client, s Server, stream bool) (after time.Duration, pings int, ok bool) {
	if c.Time == 0 || !stream && !c.PermitWithoutStream || c.Time >= s.allowed(stream) {
		return 0, 0, false
	}
	pings = 1 + maxPingStrikes + 1
	return time.Duration(pings) * c.Time, pings, true
}

// TooManyPingsError means that a server would close the connections of a client because
// of its pings, with GOAWAY ENHANCE_YOUR_CALM, too_many_pings.
type TooManyPingsError struct {
	// Client and Server are the incompatible ends.
	Client Client
	Server Server

	// Stream says on which connections it happens: on those with a call that is quiet,
	// such as a stream without messages, or else on those without any call.
	Stream bool

	// Allowed is the time that the server wants between two pings there.
	Allowed time.Duration

	// Pings is the number of the ping that the server answers with the GOAWAY, and After
	// is when: the time since the connection was made, if nothing else is sent on it.
	// After a call it may come one ping sooner.
	Pings int
	After time.Duration
}

// Error explains the reason and how to fix it.
func (e *TooManyPingsError) Error() string {
	where, costs := "while no call is under way", ""
	if e.Stream {
		where, costs = "while a call is under way", " and the call fails with Unavailable"
	}
	text := fmt.Sprintf("keepalive: too_many_pings: %s the client pings every %v (Client.Time) and the server allows a ping every %v (%s): "+
		"it ends the connection at the %dth ping in a row, %v after the last traffic%s",
		where, e.Client.Time, e.Allowed, e.rule(), e.Pings, e.After, costs)
	return text + "; " + e.advice()
}

func (e *TooManyPingsError) rule() string {
	if e.Stream || e.Server.PermitWithoutStream {
		if e.Server.MinTime == 0 {
			return "grpc's default Server.MinTime"
		}
		return "Server.MinTime"
	}
	return "because Server.PermitWithoutStream is false"
}

func (e *TooManyPingsError) advice() string {
	if e.Stream || e.Server.PermitWithoutStream {
		return fmt.Sprintf("set Client.Time to at least %v, or Server.MinTime to at most %v", e.Allowed, e.Client.Time)
	}
	least := max(cmp.Or(e.Server.MinTime, defaultMinTime), e.Client.Time)
	if least == e.Client.Time {
		return "set Client.PermitWithoutStream to false, or Server.PermitWithoutStream to true"
	}
	return fmt.Sprintf("set Client.PermitWithoutStream to false and Client.Time to at least %v, or Server.PermitWithoutStream to true and Server.MinTime to at most %v",
		least, e.Client.Time)
}

// checkPings returns a TooManyPingsError for ends that pass their own checks.
//
// Two connections are the worst there are: one without a call, and one with a call on
// which the server sends nothing. Whatever else happens on a connection makes
// pings later or clears strikes, so that mixtures of the two draw a GOAWAY only if
// one of them does.
func checkPings(c Client, s Server) error {
	for _, stream := range []bool{false, true} {
		after, pings, tooMany := idleUntilGoAway(c, s, stream)
		if !tooMany {
			continue
		}
		return &TooManyPingsError{
			Client: c, Server: s, Stream: stream,
			Allowed: s.allowed(stream), Pings: pings, After: after,
		}
	}
	return nil
}
