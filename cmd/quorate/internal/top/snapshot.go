// Package top shows members, calls, watches and leases as they are now: by asking the members, or
// the introspection handlers of processes (package observe/introspect).
package top

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/internal/endpoint"
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

// Members asks each endpoint for its status: one RPC each time.
type Members struct {
	Client *clientv3.Client
	// Timeout is when a member counts as silent.
	Timeout time.Duration
	// Why, if set, finds the cause why an endpoint does not answer, "" if there is none.
	Why func(ctx context.Context, endpoint string) string
}

// Snapshot asks all endpoints at the same time.
func (m Members) Snapshot(ctx context.Context) Snapshot {
	endpoints := m.Client.Endpoints()
	s := Snapshot{At: time.Now(), Members: make([]Member, len(endpoints))}
	var wg sync.WaitGroup
	for i, endpoint := range endpoints {
		wg.Go(func() { s.Members[i] = m.ask(ctx, endpoint) })
	}
	wg.Wait()
	return s
}

func (m Members) ask(parent context.Context, ep string) Member {
	ctx, cancel := context.WithTimeout(parent, m.Timeout)
	defer cancel()
	out := Member{Endpoint: endpoint.Redact(ep)}
	begin := time.Now()
	reply, err := m.Client.Status(ctx, ep)
	if err != nil {
		out.State, out.Why = "failing", cmp.Or(status.Convert(err).Message(), status.Code(err).String())
		if code := status.Code(err); code == codes.DeadlineExceeded || code == codes.Unavailable || ctx.Err() != nil {
			out.State = "no answer"
			if m.Why != nil {
				out.Why = cmp.Or(m.Why(parent, ep), out.Why)
			}
		}
		return out
	}
	out.LatencyMS = milliseconds(time.Since(begin).Seconds())
	out.State, out.Role = "serving", "follower"
	out.ID, out.Term, out.Applied, out.Version = fmt.Sprintf("%x", reply.Header.GetMemberId()), reply.RaftTerm, reply.RaftAppliedIndex, reply.Version
	switch {
	case reply.IsLearner:
		out.State, out.Role = "restricted", "learner"
	case reply.Header.GetMemberId() == 0: // it is no member: kine
		out.Role = ""
	case reply.Leader == 0:
		out.State, out.Role = "degraded", "no leader"
	case reply.Leader == reply.Header.GetMemberId():
		out.Role = "leader"
	}
	out.Why = strings.Join(reply.Errors, ", ")
	return out
}

func milliseconds(seconds float64) float64 { return float64(int64(seconds*1e6+0.5)) / 1e3 }
