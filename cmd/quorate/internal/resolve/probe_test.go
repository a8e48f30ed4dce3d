package resolve_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/clientv3/mock/fakeetcd"
	"github.com/quorate/quorate/cmd/internal/cli"
	"github.com/quorate/quorate/cmd/quorate/internal/resolve"
	"github.com/quorate/quorate/health"
	"github.com/quorate/quorate/internal/grpctest"
)

// silent is what a script has in place of a kind for a probe without an answer.
const silent = health.Kind(255)

// script answers one probe after the other, and ends when it has no more answers.
type script struct {
	answers []health.Kind
	ended   chan struct{}
}

func (s *script) Probe(ctx context.Context, _ grpc.ClientConnInterface, report func(health.Report)) {
	if len(s.answers) == 0 {
		close(s.ended)
		<-ctx.Done()
		return
	}
	answer := s.answers[0]
	s.answers = s.answers[1:]
	if answer == silent {
		<-ctx.Done()
		return
	}
	report(health.Report{Kind: answer})
}

func TestTwoProbesInARowWithoutServiceAreAVerdict(t *testing.T) {
	const (
		suspected = "suspected (suspicious: no answer for 1s)"
		doubted   = "suspected (suspicious: alive, and does not show that it serves)"
		dead      = "dead (unresponsive: no answer for 1s)"
		lagging   = "lagging (stalled: alive, and does not show that it serves)"
		serving   = "serving (served)"
	)
	tests := []struct {
		name    string
		answers []health.Kind
		want    []string
	}{
		{"one probe", []health.Kind{silent}, []string{suspected}},
		{"two probes", []health.Kind{silent, silent, silent}, []string{suspected, dead}},
		{"alive once", []health.Kind{health.Answered, health.Served}, []string{doubted, serving}},
		{"alive only", []health.Kind{health.Answered, health.Answered, health.Answered}, []string{doubted, lagging}},
		{"silent, then alive", []health.Kind{silent, health.Answered}, []string{suspected, lagging}},
		{"work in between", []health.Kind{silent, health.Served, silent}, []string{suspected, serving, suspected}},
		{"a slow endpoint", []health.Kind{health.Late, silent, silent}, []string{"slow (late)", dead}},
		{"the dead return", []health.Kind{silent, silent, health.Answered, health.Served}, []string{suspected, dead, lagging, serving}},
	}
	for _, tt := range tests {
		grpctest.Bubble(t, tt.name, func(t *testing.T) {
			s := &script{answers: tt.answers, ended: make(chan struct{})}
			var changes []string
			p := resolve.NewProbes(s, insecure.NewCredentials(), time.Second, func(c health.Change) {
				assert.Equal(t, "10.0.0.1:80", c.Endpoint)
				assert.Equal(t, time.Now(), c.Evidence.At)
				changes = append(changes, fmt.Sprintf("%v (%v)", c.To, c.Evidence))
			})
			p.Set([]resolver.Endpoint{{Addresses: []resolver.Address{{Addr: "10.0.0.1:80"}}}})
			<-s.ended
			p.Close()
			assert.Equal(t, tt.want, changes)
		})
	}
}

// What a source or an endpoint says cannot control the terminal.
func TestTextIsClean(t *testing.T) {
	var out strings.Builder
	printer := resolve.Printer{Out: &out}
	_ = printer.Print(resolve.Event{Type: "endpoints", Endpoints: []resolve.Endpoint{{Addresses: []string{"a\x1b[2J\n"}}}}) // to memory
	_ = printer.Print(resolve.Event{Type: "error", Error: "a\x1b[2J\u009b2J"})
	_ = printer.Print(resolve.Changed(health.Change{Endpoint: "a\r", Evidence: health.Evidence{Detail: "\a"}}))
	assert.Equal(t, 4, strings.Count(out.String(), "\n"))
	assert.Equal(t, cli.Clean(out.String()), out.String())
}

// Of the results of both probes of a member, one is reported.
func TestMemberMakesOneReport(t *testing.T) {
	hold := func(c *fakeetcd.Call) {
		if err := c.Hold(nil); err != nil {
			c.Answer(nil, status.FromContextError(c.Context().Err()).Err())
		}
	}
	refuse := func(c *fakeetcd.Call) {
		c.Answer(&healthpb.HealthCheckResponse{Status: healthpb.HealthCheckResponse_NOT_SERVING}, nil)
	}
	noLeader := func(c *fakeetcd.Call) { c.Answer(nil, rpctypes.ErrGRPCNoLeader) }
	tests := []struct {
		name         string
		read, health func(*fakeetcd.Call) // nil is as it should be
		want         []health.Kind
	}{
		{"it works", nil, nil, []health.Kind{health.Served}},
		{"it has no leader", noLeader, nil, []health.Kind{health.Degrading}},
		{"it works, and its health service hangs", nil, hold, []health.Kind{health.Served}},
		{"it is alive, and does no work", hold, nil, []health.Kind{health.Answered}},
		{"it works, and refuses", nil, refuse, []health.Kind{health.Refusing}},
		{"it refuses, and does no work", hold, refuse, []health.Kind{health.Refusing}},
		{"it hangs", hold, hold, nil},
	}
	for _, tt := range tests {
		grpctest.Bubble(t, tt.name, func(t *testing.T) {
			cluster, err := fakeetcd.Start(1)
			require.NoError(t, err)
			defer cluster.Close()
			for method, hook := range map[string]func(*fakeetcd.Call){"Range": tt.read, "Check": tt.health} {
				if hook != nil {
					cluster.On(method, hook)
				}
			}
			conn, err := cluster.Member(0).Dial()
			require.NoError(t, err)
			defer conn.Close()
			ctx := grpctest.Within(t, time.Second)
			var got []health.Kind
			resolve.Member{}.Probe(ctx, conn, func(r health.Report) { got = append(got, r.Kind) })
			assert.Equal(t, tt.want, got)
		})
	}
}

func TestJSONOfNoEndpoints(t *testing.T) {
	var out strings.Builder
	require.NoError(t, (&resolve.Printer{Out: &out, JSON: true}).Print(resolve.Event{Endpoints: []resolve.Endpoint{}}))
	assert.Contains(t, out.String(), `"endpoints":[]`)
}
