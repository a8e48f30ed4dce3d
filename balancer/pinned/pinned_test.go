package pinned

import (
	"fmt"
	"sync"
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
	priorities         map[*balancer.Endpoint]uint32
}

// newBed returns n endpoints, of which none is connected.
func newBed(n int) *bed {
	b := &bed{connected: make(map[*balancer.Endpoint]bool), failing: make(map[*balancer.Endpoint]bool)}
	table := health.NewTable()
	for i := range n {
		name := fmt.Sprint(i)
		entry := table.Acquire("", name)
		b.entries = append(b.entries, entry)
		b.eps = append(b.eps, balancer.Detached(name, entry, nil))
	}
	return b
}

func (b *bed) env() env {
	return env{
		now:         func() time.Time { return epoch.Add(b.elapsed) },
		random:      func(int) int { return 0 },
		ready:       func(ep *balancer.Endpoint) bool { return b.connected[ep] },
		unreachable: func(ep *balancer.Endpoint) bool { return b.failing[ep] },
		priority:    func(ep *balancer.Endpoint) uint32 { return b.priorities[ep] },
	}
}

// connect leaves exactly these endpoints connected.
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
	for r := None; r <= Outranked; r++ {
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

// pinnedTo returns the form with all of n endpoints connected, and the first one pinned.
func pinnedTo(t *testing.T, n int) (*bed, *firstOfAll) {
	t.Helper()
	b := newBed(n)
	for i := range n {
		b.connected[b.eps[i]] = true
	}
	s := &firstOfAll{pin{env: b.env()}}
	require.Equal(t, b.eps[0], s.Pick(balancer.Call{}, b.eps))
	require.Equal(t, b.eps[0], s.Pinned())
	return b, s
}

func TestFirstOfAllPinsTheFirstThatIsFit(t *testing.T) {
	b := newBed(3)
	b.connect(2)
	s := &firstOfAll{pin{env: b.env()}}
	require.Equal(t, b.eps[2], s.Pick(balancer.Call{}, b.eps[2:]))
	b.connect(0, 1, 2)
	for range 10 {
		assert.Equal(t, b.eps[2], s.Pick(balancer.Call{}, b.eps), "it stays")
	}
	assert.Equal(t, "nothing", lastUnpin(s))
}

func TestFirstOfAllUnpinsForAReason(t *testing.T) {
	for _, tc := range states {
		t.Run(tc.name, func(t *testing.T) {
			b, s := pinnedTo(t, 3)
			b.note(0, tc.kinds...)
			b.elapsed = time.Minute
			assert.Equal(t, b.eps[1], s.Pick(balancer.Call{}, b.eps[1:]))
			assert.Equal(t, b.eps[1], s.Pinned())
			assert.Equal(t, "0: "+tc.reason.String()+" at 1m0s", lastUnpin(s))
			assert.Equal(t, b.eps[1], s.Pick(balancer.Call{}, b.eps), "the old one is fit again, and not gone back to")
		})
	}
	t.Run("disconnected", func(t *testing.T) {
		b, s := pinnedTo(t, 3)
		b.connect(1, 2)
		assert.Equal(t, b.eps[1], s.Pick(balancer.Call{}, b.eps[1:]))
		assert.Equal(t, "0: disconnected at 0s", lastUnpin(s))
	})
}

func TestFirstOfAllComesBackAtOnce(t *testing.T) {
	b, s := pinnedTo(t, 2)
	b.connect(1)
	require.Equal(t, b.eps[1], s.Pick(balancer.Call{}, b.eps[1:]))
	b.connect(0)
	assert.Equal(t, b.eps[0], s.Pick(balancer.Call{}, b.eps[:1]), "no time at all has passed")
	assert.Equal(t, "1: disconnected at 0s", lastUnpin(s))
}

func TestFirstOfAllKeepsThePinForACallThatAvoidsIt(t *testing.T) {
	b, s := pinnedTo(t, 3)
	assert.Equal(t, b.eps[1], s.Pick(balancer.Call{}, b.eps[1:]))
	assert.Equal(t, b.eps[0], s.Pinned())
	assert.Equal(t, b.eps[0], s.Pick(balancer.Call{}, b.eps))
	assert.Equal(t, "nothing", lastUnpin(s))
}

// Calls follow the pin to the endpoints of a better priority, and are not spread over these.
func TestFirstOfAllLeavesABackup(t *testing.T) {
	b, s := pinnedTo(t, 3)
	b.priorities = map[*balancer.Endpoint]uint32{b.eps[0]: 1}
	assert.Equal(t, b.eps[1], s.Pick(balancer.Call{}, b.eps[1:]))
	assert.Equal(t, b.eps[1], s.Pinned())
	assert.Equal(t, "0: outranked at 0s", lastUnpin(s))
	assert.Equal(t, b.eps[0], s.Pick(balancer.Call{}, b.eps[:1]), "the call avoids the others")
	assert.Equal(t, b.eps[1], s.Pinned())
}

func TestFirstOfAllUsesThePinForLocalCalls(t *testing.T) {
	b, s := pinnedTo(t, 2)
	b.note(0, health.Degrading)
	local := balancer.Call{Need: balancer.Local}
	assert.Equal(t, b.eps[0], s.Pick(local, b.eps), "it still can serve these")
	assert.Equal(t, b.eps[1], s.Pick(balancer.Call{}, b.eps[1:]))
	assert.Equal(t, b.eps[1], s.Pick(local, b.eps), "another is pinned")
}

func TestFirstOfAllPinsNoUnfitEndpoint(t *testing.T) {
	b, s := pinnedTo(t, 3)
	b.note(0, health.Unresponsive)
	b.note(1, health.Restricting)
	b.note(2, health.Degrading)
	assert.Equal(t, b.eps[1], s.Pick(balancer.Call{Need: balancer.Local}, b.eps[1:]), "the call must go somewhere")
	assert.Equal(t, b.eps[0], s.Pinned())
	b.note(2, health.Served)
	assert.Equal(t, b.eps[2], s.Pick(balancer.Call{}, b.eps[2:]))
	assert.Equal(t, "0: dead at 0s", lastUnpin(s))
}

func TestFirstOfAllWithoutAFitEndpoint(t *testing.T) {
	b := newBed(1)
	b.connect(0)
	b.note(0, health.Degrading)
	s := &firstOfAll{pin{env: b.env()}}
	assert.Equal(t, b.eps[0], s.Pick(balancer.Call{}, b.eps))
	assert.Nil(t, s.Pinned())
}

// TestFirstOfAllConcurrently lets calls find the pin dead at the same time: they agree on
// one other endpoint, and one of them notes the reason.
func TestFirstOfAllConcurrently(t *testing.T) {
	b, s := pinnedTo(t, 8)
	s.random = realEnv.random
	b.note(0, health.Unresponsive)
	picked := make([]*balancer.Endpoint, 64)
	var wg sync.WaitGroup
	for i := range picked {
		wg.Go(func() { picked[i] = s.Pick(balancer.Call{}, b.eps[1:]) })
	}
	wg.Wait()
	for _, ep := range picked {
		assert.Equal(t, s.Pinned(), ep)
	}
	assert.Equal(t, "0: dead at 0s", lastUnpin(s))
}

func TestFirstOfAllDoesNotAllocate(t *testing.T) {
	b, s := pinnedTo(t, 3)
	assert.Zero(t, testing.AllocsPerRun(100, func() { s.Pick(balancer.Call{}, b.eps) }))
}

func raceAmong(n int) (*bed, *race) {
	b := newBed(n)
	return b, &race{pin: pin{env: b.env()}}
}

// racers are the endpoints that are to have a connection.
func racers(s *race, all []*balancer.Endpoint) []*balancer.Endpoint { return s.Wanted(all) }

// wonBy returns the form with a race that the i-th of n endpoints has won.
func wonBy(t *testing.T, i, n int) (*bed, *race) {
	t.Helper()
	b, s := raceAmong(n)
	require.Equal(t, b.eps, racers(s, b.eps))
	b.connect(i)
	require.Equal(t, b.eps[i:i+1], racers(s, b.eps))
	return b, s
}

func TestRaceIsWonByTheFirstConnected(t *testing.T) {
	b, s := raceAmong(3)
	assert.Equal(t, b.eps, racers(s, b.eps))
	assert.Nil(t, s.Pinned())
	b.connect(1)
	assert.Equal(t, b.eps[1:2], racers(s, b.eps))
	assert.Equal(t, b.eps[1], s.Pinned())
	b.connect(0, 1, 2)
	assert.Equal(t, b.eps[1:2], racers(s, b.eps), "the others were about to be connected")
	assert.Equal(t, b.eps[1], s.Pick(balancer.Call{}, b.eps))
	assert.Equal(t, "nothing", lastUnpin(s))
}

// A backup serves during the race, and wins it only if no endpoint of a better priority still can.
func TestRaceIsNotWonByABackupTooSoon(t *testing.T) {
	for winner, connected := range [][]int{{0}, {0, 1}} {
		b, s := raceAmong(3)
		b.priorities = map[*balancer.Endpoint]uint32{b.eps[0]: 1}
		b.connect(0)
		require.Equal(t, b.eps, racers(s, b.eps))
		assert.Equal(t, b.eps[0], s.Pick(balancer.Call{}, b.eps[:1]))
		b.connect(connected...)
		b.failing[b.eps[1]] = winner == 0
		b.note(2, health.Refusing)
		assert.Equal(t, b.eps[winner:winner+1], racers(s, b.eps))
		clear(b.failing)
		assert.Equal(t, b.eps[winner:winner+1], racers(s, b.eps), "the pin stays")
	}
}

func TestRaceIsNotWonByABadOne(t *testing.T) {
	for _, tc := range states {
		t.Run(tc.name, func(t *testing.T) {
			b, s := raceAmong(2)
			b.note(0, tc.kinds...)
			b.connect(0)
			assert.Equal(t, b.eps, racers(s, b.eps))
			b.connect(0, 1)
			assert.Equal(t, b.eps[1:], racers(s, b.eps))
		})
	}
}

func TestRaceOfNone(t *testing.T) {
	_, s := raceAmong(0)
	assert.Empty(t, racers(s, nil))
	b, s := wonBy(t, 0, 1)
	assert.Empty(t, racers(s, nil), "all endpoints were removed")
	assert.Nil(t, s.Pinned())
	assert.Equal(t, "0: removed at 0s", lastUnpin(s))
	assert.Equal(t, b.eps, racers(s, b.eps), "and are back")
}

// Any other endpoint stays connected until another one has won.
func TestEndpointOfNoUseLeavesTheRace(t *testing.T) {
	for _, tc := range states {
		t.Run(tc.name, func(t *testing.T) {
			b, s := wonBy(t, 0, 3)
			b.note(0, tc.kinds...)
			b.elapsed = time.Minute
			if tc.reason.useful() {
				assert.Equal(t, b.eps, racers(s, b.eps))
				assert.Equal(t, b.eps[0], s.Pinned())
				assert.Equal(t, b.eps[0], s.Pick(balancer.Call{}, b.eps[:1]))
			} else {
				assert.Equal(t, b.eps[1:], racers(s, b.eps))
				assert.Nil(t, s.Pinned())
			}
			b.connected[b.eps[2]] = true
			assert.Equal(t, b.eps[2:], racers(s, b.eps))
			assert.Equal(t, b.eps[2], s.Pinned())
			assert.Equal(t, "0: "+tc.reason.String()+" at 1m0s", lastUnpin(s))
		})
	}
}

func TestRaceAfterDisconnection(t *testing.T) {
	b, s := wonBy(t, 0, 3)
	b.connect()
	assert.Equal(t, b.eps, racers(s, b.eps), "the old one may come first again")
	assert.Nil(t, s.Pinned())
	assert.Equal(t, "0: disconnected at 0s", lastUnpin(s))
	b.connect(0)
	assert.Equal(t, b.eps[:1], racers(s, b.eps), "there is no time to wait")
}

func TestRaceEndsWithATransientSuspicion(t *testing.T) {
	b, s := wonBy(t, 0, 3)
	b.note(0, health.Answered, health.Suspicious)
	require.Equal(t, b.eps, racers(s, b.eps))
	b.note(0, health.Served)
	assert.Equal(t, b.eps[:1], racers(s, b.eps))
	assert.Equal(t, b.eps[0], s.Pinned())
	assert.Equal(t, "nothing", lastUnpin(s))
}

func TestLoserRacesAgain(t *testing.T) {
	dead := []health.Kind{health.Unresponsive}
	for _, tc := range []struct {
		name string
		n    int
		do   func(b *bed, s *race)
	}{
		{"when it is the only one", 1, func(*bed, *race) {}},
		{"when all are bad", 3, func(b *bed, _ *race) { b.note(1, dead...); b.note(2, health.Refusing) }},
		{"when the others are not to be reached", 3, func(b *bed, _ *race) { b.failing[b.eps[1]], b.failing[b.eps[2]] = true, true }},
		{"when the others are bad or not to be reached", 3, func(b *bed, _ *race) { b.note(1, dead...); b.failing[b.eps[2]] = true }},
		{"when it is found fit", 3, func(b *bed, _ *race) { b.note(0, health.Served) }},
		{"when it is found of some use", 3, func(b *bed, _ *race) { b.note(0, health.Degrading) }},
		{"when another has won and lost", 3, func(b *bed, s *race) {
			b.connect(1)
			racers(s, b.eps)
			b.connect()
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b, s := wonBy(t, 0, tc.n)
			b.connect()
			b.note(0, dead...)
			if tc.n > 1 {
				require.Equal(t, b.eps[1:], racers(s, b.eps))
			}
			tc.do(b, s)
			assert.Equal(t, b.eps, racers(s, b.eps))
		})
	}
}

func TestRaceWhenThePinIsRemoved(t *testing.T) {
	b, s := wonBy(t, 0, 3)
	assert.Equal(t, b.eps[1:], racers(s, b.eps[1:]))
	assert.Nil(t, s.Pinned())
	assert.Equal(t, "0: removed at 0s", lastUnpin(s))
	b.connect(0, 2)
	assert.Equal(t, b.eps[2:], racers(s, b.eps[1:]))
}

func TestRacePicksAmongTheConnected(t *testing.T) {
	b, s := raceAmong(3)
	assert.Equal(t, b.eps[1], s.Pick(balancer.Call{}, b.eps[1:2]), "connected, and the policy has not asked yet")
	assert.Nil(t, s.Pinned(), "calls do not pin")
	b.connect(0)
	racers(s, b.eps)
	assert.Equal(t, b.eps[0], s.Pick(balancer.Call{Need: balancer.Local}, b.eps))
	assert.Equal(t, b.eps[1], s.Pick(balancer.Call{}, b.eps[1:]), "the pin is not fit")
}

func TestWantedDoesNotChangeItsArgument(t *testing.T) {
	b, s := wonBy(t, 1, 3)
	b.connect()
	b.note(1, health.Unresponsive)
	all := []*balancer.Endpoint{b.eps[0], b.eps[1], b.eps[2]}
	require.Len(t, racers(s, all), 2)
	assert.Equal(t, b.eps, all)
}

func TestRacePicksWhilePinsMove(t *testing.T) {
	b, s := wonBy(t, 0, 2)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 1000 {
				assert.Contains(t, b.eps, s.Pick(balancer.Call{}, b.eps))
				s.LastUnpin()
			}
		})
	}
	for i := range 1000 {
		b.connect(i % 2)
		racers(s, b.eps)
	}
	wg.Wait()
	assert.Equal(t, b.eps[1], s.Pinned())
}
