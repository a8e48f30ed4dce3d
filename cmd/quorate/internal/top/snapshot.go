// Package top shows members, calls, watches and leases as they are now: by asking the members, or
// the introspection handlers of processes (package observe/introspect).
package top

import (
	"context"
	"time"

	"github.com/quorate/quorate/observe/introspect"
)

// Snapshot is what is known at a moment.
type Snapshot struct {
	At      time.Time `json:"at"`
	Members []Member  `json:"members"`
	// Methods, Calls and Clients are those of the processes; without any they are empty.
	Methods []Method `json:"methods,omitempty"` // by rate
	Calls   []Call   `json:"calls,omitempty"`   // in flight, the oldest first
	Clients []Client `json:"clients,omitempty"`
	// Elections are those of the processes, and locks.
	Elections []Election `json:"elections,omitempty"`
	Errors    []string   `json:"errors,omitempty"` // of processes that did not answer
}

// Member is an endpoint, as it was asked, or as a client or a gRPC channel sees it.
type Member struct {
	Client    string  `json:"client,omitempty"` // whose view it is; empty if it was asked
	Endpoint  string  `json:"endpoint"`
	ID        string  `json:"id,omitempty"`
	State     string  `json:"state"`
	Role      string  `json:"role,omitempty"`
	LatencyMS float64 `json:"latency_ms"` // 0 if it is not known
	Term      uint64  `json:"term,omitempty"`
	Applied   uint64  `json:"applied,omitempty"`
	Version   string  `json:"version,omitempty"`
	InFlight  int     `json:"in_flight"`
	Rate      float64 `json:"calls_per_second"`
	Why       string  `json:"why,omitempty"` // evidence, an alarm or an error
	// For is how long the state has lasted, Ejected says that others are used instead, and Share is the share of the
	// calls, from 0 to 1: as a client or a channel says.
	For     float64 `json:"state_seconds,omitempty"`
	Ejected bool    `json:"ejected,omitempty"`
	Share   float64 `json:"share,omitempty"`
	Streams int     `json:"streams,omitempty"`
}

// Method is what calls of one shape do, in all processes together.
type Method struct {
	Shape  string  `json:"shape"`
	Rate   float64 `json:"calls_per_second"`
	Failed float64 `json:"failed_per_second"`
	MeanMS float64 `json:"mean_ms"`
	P99MS  float64 `json:"p99_ms"` // the highest of the clients

	busy float64 // seconds of calls in a second
}

// Call is an attempt in flight.
type Call struct {
	Client   string  `json:"client"`
	Method   string  `json:"method"`
	Endpoint string  `json:"endpoint"`
	AgeMS    float64 `json:"age_ms"`
}

// Client sums up what one client does, or one gRPC channel.
type Client struct {
	Name       string   `json:"name"`             // with its process
	Target     string   `json:"target,omitempty"` // of a channel
	Policy     string   `json:"policy,omitempty"` // of a channel, if it is known
	Ready      bool     `json:"ready"`
	NotReady   string   `json:"not_ready,omitempty"`
	InFlight   int      `json:"in_flight"`
	Watches    int      `json:"watches"`
	Lag        int64    `json:"lag_revisions"`
	Unread     int64    `json:"buffered_bytes"`
	Leases     int      `json:"leases"`
	Unanswered int      `json:"leases_unanswered"`
	LeaseLeft  *float64 `json:"lease_left_seconds,omitempty"`
}

// Election is a key that a process campaigns for or holds.
type Election struct {
	Client string `json:"client"`
	introspect.Election
}

// Source is where snapshots come from.
type Source interface {
	// Snapshot asks for one, and ends with ctx. One call is under way at a time.
	Snapshot(ctx context.Context) Snapshot
}
