//go:build experiment

package resolvers

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/resolver"

	"github.com/quorate/quorate/lab/robustness"
	"github.com/quorate/quorate/lab/robustness/internal/soaktest"
)

// spoiled is a builder whose resolvers talk to channels through something that breaks promises.
type spoiled struct {
	resolver.Builder
	conn func(resolver.ClientConn) resolver.ClientConn
}

func (s spoiled) Build(t resolver.Target, cc resolver.ClientConn, opts resolver.BuildOptions) (resolver.Resolver, error) {
	return s.Builder.Build(t, s.conn(cc), opts)
}

type wrapper = func(resolver.Builder, func() (resolver.Builder, error)) resolver.Builder

func wrapConn(conn func(resolver.ClientConn) resolver.ClientConn) wrapper {
	return func(b resolver.Builder, _ func() (resolver.Builder, error)) resolver.Builder { return spoiled{b, conn} }
}

// emptying publishes an empty list with each error.
type emptying struct{ resolver.ClientConn }

func (c emptying) ReportError(err error) {
	_ = c.UpdateState(resolver.State{})
	c.ClientConn.ReportError(err)
}

func newEmptying(cc resolver.ClientConn) resolver.ClientConn { return emptying{cc} }

// firstListOnly passes on the first list only.
type firstListOnly struct {
	resolver.ClientConn
	listed bool
}

func (c *firstListOnly) UpdateState(s resolver.State) error {
	if c.listed {
		return nil
	}
	c.listed = true
	return c.ClientConn.UpdateState(s)
}

func newFirstListOnly(cc resolver.ClientConn) resolver.ClientConn {
	return &firstListOnly{ClientConn: cc}
}

// forgetting makes a builder for each channel, so that none knows what another one did.
type forgetting struct {
	resolver.Builder
	fresh func() (resolver.Builder, error)
}

func (f forgetting) Build(t resolver.Target, cc resolver.ClientConn, opts resolver.BuildOptions) (resolver.Resolver, error) {
	b, err := f.fresh()
	if err != nil {
		return nil, err
	}
	return b.Build(t, cc, opts)
}

func forget(b resolver.Builder, another func() (resolver.Builder, error)) resolver.Builder {
	return forgetting{b, another}
}

// TestMistakesAreFound has resolvers break promises. Each is found out within seconds.
func TestMistakesAreFound(t *testing.T) {
	dns, kubernetes := []string{"dns"}, []string{"kubernetes"}
	tests := map[string]struct {
		cfg     Config
		promise robustness.Promise
	}{
		"errors empty the list":               {Config{Resolvers: dns, only: "servfail", wrap: wrapConn(newEmptying)}, Serving},
		"a false list is applied, DNS":        {Config{Resolvers: dns, only: "names-a-part", noRemovalDelay: true}, Removal},
		"a false list is applied, Kubernetes": {Config{Resolvers: kubernetes, only: "names-nothing", noRemovalDelay: true}, Removal},
		"changes are not reported":            {Config{Resolvers: kubernetes, only: "stopped", wrap: wrapConn(newFirstListOnly)}, Current},
		"lists are forgotten, DNS":            {Config{Resolvers: dns, only: "silent", wrap: forget}, Serving},
		"lists are forgotten, Kubernetes":     {Config{Resolvers: kubernetes, only: "stopped", wrap: forget}, Serving},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, base := soaktest.Until(t, func(c *robustness.Counts) bool { return c.Of("violations", string(tt.promise)) > 0 })
			cfg := tt.cfg
			cfg.Config, cfg.Channels, cfg.giveUpAfter = base, 20, 2*time.Second
			result, err := cfg.run(ctx)
			require.NoError(t, err)
			assert.Positive(t, result.Verdict.Counts[tt.promise], "%v", result)
		})
	}
}
