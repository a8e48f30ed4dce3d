//go:build experiment

package resolvers

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/resolver"

	"github.com/quorate/quorate/lab/robustness"
	"github.com/quorate/quorate/lab/robustness/internal/soaktest"
)

// bound is how long channels may take in TestNames, on a machine that is busy.
const bound = 15 * time.Second

// TestNames is the short form of "quorate-lab soak resolvers".
func TestNames(t *testing.T) {
	ctx, cfg := soaktest.Short(t, func(c *robustness.Counts) bool {
		return !slices.ContainsFunc(Resolvers(), func(name string) bool {
			return c.Of(name+" calls", "made") < 20 || c.Of(name+" changes", "made") < 2
		})
	})
	result, err := Config{Config: cfg, bound: bound}.Run(ctx)
	require.NoError(t, err)
	require.True(t, result.Verdict.OK(), "%v", result)
	t.Log("\n" + result.String())
	for _, name := range Resolvers() {
		assert.Positive(t, result.Counts.Of(name+" calls", "made"), name)
		assert.Positive(t, result.Counts.Of(name+" opened", "seen"), name)
		assert.Positive(t, result.Counts.Of(name+" changes", "seen"), name)
	}
}

// builder builds resolvers in another way.
type builder struct {
	resolver.Builder
	build func(resolver.Target, resolver.ClientConn, resolver.BuildOptions) (resolver.Resolver, error)
}

func (b builder) Build(t resolver.Target, cc resolver.ClientConn, opts resolver.BuildOptions) (resolver.Resolver, error) {
	return b.build(t, cc, opts)
}

type wrapper = func(resolver.Builder, func() (resolver.Builder, error)) resolver.Builder

// wrapConn has resolvers talk to channels through something that breaks promises.
func wrapConn(conn func(resolver.ClientConn) resolver.ClientConn) wrapper {
	return func(b resolver.Builder, _ func() (resolver.Builder, error)) resolver.Builder {
		return builder{b, func(t resolver.Target, cc resolver.ClientConn, opts resolver.BuildOptions) (resolver.Resolver, error) {
			return b.Build(t, conn(cc), opts)
		}}
	}
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

// forget makes a builder for each channel, so that none knows what another one did.
func forget(b resolver.Builder, another func() (resolver.Builder, error)) resolver.Builder {
	return builder{b, func(t resolver.Target, cc resolver.ClientConn, opts resolver.BuildOptions) (resolver.Resolver, error) {
		fresh, err := another()
		if err != nil {
			return nil, err
		}
		return fresh.Build(t, cc, opts)
	}}
}

// TestMistakesAreFound has resolvers break promises. Each is found out within seconds.
func TestMistakesAreFound(t *testing.T) {
	dns, kubernetes := []string{"dns"}, []string{"kubernetes"}
	tests := map[string]struct {
		cfg     Config
		promise robustness.Promise
	}{
		"errors empty the list":               {Config{Resolvers: dns, only: "servfail", wrap: wrapConn(newEmptying)}, Serving},
		"a false list is applied, DNS":        {Config{Resolvers: dns, only: "names-a-part", removalDelay: -1}, Removal},
		"a false list is applied, Kubernetes": {Config{Resolvers: kubernetes, only: "names-nothing", removalDelay: -1}, Removal},
		"changes are not reported":            {Config{Resolvers: kubernetes, only: "stopped", wrap: wrapConn(newFirstListOnly)}, Current},
		"lists are forgotten, DNS":            {Config{Resolvers: dns, only: "silent", wrap: forget}, Serving},
		"lists are forgotten, Kubernetes":     {Config{Resolvers: kubernetes, only: "stopped", wrap: forget}, Serving},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, base := soaktest.Until(t, func(c *robustness.Counts) bool { return c.Of("violations", string(tt.promise)) > 0 })
			cfg := tt.cfg
			cfg.Config, cfg.Channels, cfg.bound = base, 20, time.Second
			result, err := cfg.run(ctx)
			require.NoError(t, err)
			assert.Positive(t, result.Verdict.Counts[tt.promise], "%v", result)
		})
	}
}
