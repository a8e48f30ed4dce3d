package pinned

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/quorate/quorate/balancer"
	"github.com/quorate/quorate/health"
)

var epoch = time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC)

// bed is a set of endpoints, their connections, and a clock.
type bed struct {
	eps     []*balancer.Endpoint
	entries []*health.Entry
	elapsed time.Duration

	connected, failing map[*balancer.Endpoint]bool
}

// newBed returns n endpoints, of which none is connected.
func newBed(n int) *bed {
	b := &bed{connected: make(map[*balancer.Endpoint]bool), failing: make(map[*balancer.Endpoint]bool)}
	table := health.NewTable()
	for i := range n {
		name := fmt.Sprint(i)
		entry := table.Acquire("", name)
		b.entries = append(b.entries, entry)
		b.eps = append(b.eps, balancer.Detached(name, entry))
	}
	return b
}

func (b *bed) env() env {
	return env{
		now:         func() time.Time { return epoch.Add(b.elapsed) },
		random:      func(int) int { return 0 },
		ready:       func(ep *balancer.Endpoint) bool { return b.connected[ep] },
		unreachable: func(ep *balancer.Endpoint) bool { return b.failing[ep] },
	}
}

// connect has exactly these endpoints connected.
func (b *bed) connect(which ...int) {
	clear(b.connected)
	for _, i := range which {
		b.connected[b.eps[i]] = true
	}
}

func (b *bed) note(i int, kinds ...health.Kind) {
	for _, kind := range kinds {
		b.entries[i].Note(health.Evidence{Kind: kind, At: epoch})
	}
}

// states are the ways into each state that speaks against an endpoint.
var states = []struct {
	name   string
	kinds  []health.Kind
	reason Reason
}{
	{"suspected", []health.Kind{health.Answered, health.Suspicious}, Suspected},
	{"slow", []health.Kind{health.Late}, Slow},
	{"lagging", []health.Kind{health.Stalled}, Lagging},
	{"degraded", []health.Kind{health.Degrading}, Degraded},
	{"restricted", []health.Kind{health.Restricting}, Restricted},
	{"not serving", []health.Kind{health.Refusing}, NotServing},
	{"dead", []health.Kind{health.Unresponsive}, Dead},
	{"removed", []health.Kind{health.Removed}, Removed},
}

func lastUnpin(p Pin) string {
	ep, reason, at := p.LastUnpin()
	if ep == nil {
		return "nothing"
	}
	return fmt.Sprintf("%s: %v at %v", ep.Address(), reason, at.Sub(epoch))
}

func TestParse(t *testing.T) {
	for _, tc := range []struct {
		js   string
		form Form
		err  string
	}{
		{`{}`, Race, ""},
		{`{"form": ""}`, Race, ""},
		{`{"form": "race"}`, Race, ""},
		{`{"form": "first_of_all", "drainTimeout": "5s"}`, FirstOfAll, ""},
		{`{"form": "last"}`, "", `form must be "race" or "first_of_all"; it is "last"`},
		{`{"form": 1}`, "", "form"},
		{`[]`, "", "array"},
	} {
		t.Run(tc.js, func(t *testing.T) {
			c, err := Builder.Parse([]byte(tc.js))
			if tc.err != "" {
				assert.ErrorContains(t, err, tc.err)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, tc.form, c.(*Config).Form)
		})
	}
}

func TestBuild(t *testing.T) {
	assert.Equal(t, "pinned", Builder.Name)
	assert.IsType(t, (*race)(nil), Builder.Build(nil))
	assert.IsType(t, (*race)(nil), Builder.Build(&Config{}))
	assert.IsType(t, (*race)(nil), Builder.Build(&Config{Form: Race}))
	s := Builder.Build(&Config{Form: FirstOfAll})
	assert.IsType(t, (*firstOfAll)(nil), s)
	assert.NotImplements(t, (*balancer.Selective)(nil), s, "it connects to all")
	require.Implements(t, (*Pin)(nil), s)
	assert.Nil(t, s.(Pin).Pinned())
	assert.Equal(t, "nothing", lastUnpin(s.(Pin)))
}

func TestReasonNames(t *testing.T) {
	for r := None; r <= Removed; r++ {
		assert.NotContains(t, r.String(), "Reason", "%d has no name", r)
	}
	assert.Equal(t, "degraded", Degraded.String())
	assert.Equal(t, "Reason(99)", Reason(99).String())
}

// TestEveryStateHasItsReason keeps the table complete when states are added.
func TestEveryStateHasItsReason(t *testing.T) {
	for state := health.Unknown; state <= health.Dead; state++ {
		_, found := byState[state]
		assert.Equal(t, state != health.Unknown && state != health.Serving, found, "%v", state)
	}
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
