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
)

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
