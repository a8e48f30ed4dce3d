package health

import (
	"fmt"
	"time"
)

// Kind says what a piece of evidence shows.
type Kind uint8

const (
	// Connected says that a connection was established, handshake included.
	Connected Kind = iota
	// Disconnected says that a connection was lost, or the server closes it.
	Disconnected
	// ConnectFailed says that no connection could be established, and there is no other.
	ConnectFailed
	// Answered says that a call, a stream or a probe was answered. The server is alive.
	Answered
	// Served says that the server completed work, in good time.
	Served
	// Suspicious says that a call or a stream is silent for longer than usual, or failed with an
	// error that hints at trouble.
	Suspicious
	// Late says that the server completed work, but much later than others do.
	Late
	// Stalled says that the server completes no work, while others do.
	Stalled
	// Unresponsive says that the server gives no sign of life, while others do.
	Unresponsive
	// Degrading says that the server reports that it can serve local calls only, for now.
	Degrading
	// Restricting says that the server reports that its role lets it serve local calls only.
	Restricting
	// Refusing says that the server reports that it does not serve.
	Refusing
	// Removed says that the endpoint is no longer one of the client's.
	Removed

	kinds = int(Removed) + 1
)

var kindNames = [kinds]string{
	Connected: "connected", Disconnected: "disconnected", ConnectFailed: "connect failed", Answered: "answered",
	Served: "served", Suspicious: "suspicious", Late: "late", Stalled: "stalled", Unresponsive: "unresponsive",
	Degrading: "degrading", Restricting: "restricting", Refusing: "refusing", Removed: "removed",
}

// String returns the kind's name: "connected", "disconnected", "connect failed",
// "answered", "served", "suspicious", "late", "stalled", "unresponsive", "degrading",
// "restricting", "refusing" or "removed".
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
	// Detail says more, for people: which call was silent for how long. It holds no keys,
	// values or secrets.
	Detail string
}

// String returns the kind, with the detail and the error if there are any.
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
