package health

import (
	"fmt"
	"time"
)

// Kind says what a piece of evidence shows.
type Kind uint8

const (
	// Connected says that a connection was established, with the transport's handshake.
	Connected Kind = iota
	// Disconnected says that a connection was lost, or that the server closes it.
	Disconnected
	// ConnectFailed says that a connection could not be established.
	ConnectFailed
	// Answered says that a call, a stream or a probe was answered, which shows a server
	// that is alive and not more.
	Answered
	// Served says that a probe was answered, in good time, by a server that does its work.
	Served
	// Silent says that a call or a stream is silent for longer than its kind usually is.
	// It is to be noted again while the silence lasts: the loss of another connection to
	// the same endpoint ends the suspicion.
	Silent
	// Missed says that a probe was not answered in its time.
	Missed
	// Late says that a probe was answered by a server that does its work, but much later
	// than others answer.
	Late
	// Stalled says that the server is alive and does not do its work, while others do.
	Stalled
	// Leaderless says that the member, by its own account, has no leader.
	Leaderless
	// NonVoting says that the member, by its own account, is a learner.
	NonVoting
	// Refusing says that the server, by its own account, does not serve.
	Refusing
	// Removed says that the endpoint is no longer one of the client's.
	Removed

	kinds = int(Removed) + 1
)

var kindNames = [kinds]string{
	Connected: "connected", Disconnected: "disconnected", ConnectFailed: "connect failed", Answered: "answered",
	Served: "served", Silent: "silent", Missed: "probe missed", Late: "late", Stalled: "stalled",
	Leaderless: "leaderless", NonVoting: "non-voting", Refusing: "refusing", Removed: "removed",
}

// String returns the kind's name: "connected", "disconnected", "connect failed",
// "answered", "served", "silent", "probe missed", "late", "stalled", "leaderless",
// "non-voting", "refusing" or "removed".
func (k Kind) String() string {
	if int(k) < kinds {
		return kindNames[k]
	}
	return fmt.Sprintf("Kind(%d)", uint8(k))
}

// MarshalText returns the kind's name.
func (k Kind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// Evidence is one observation of an endpoint.
type Evidence struct {
	Kind Kind
	At   time.Time
	// Err is the error that showed it, nil if none did.
	Err error
	// Detail says more, for people: which call was silent for how long. It never holds
	// keys, values or secrets.
	Detail string
}

// String says what was observed, with the detail and the error if there are any.
func (e Evidence) String() string {
	s := e.Kind.String()
	if e.Detail != "" {
		s += ": " + e.Detail
	}
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}
