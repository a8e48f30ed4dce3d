package feed

import (
	"errors"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"google.golang.org/grpc/resolver"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// source has a State that the test sets.
type source struct {
	*Feed
	mu    sync.Mutex
	state State
	cost  time.Duration // the time that building the State takes
	built int
}

func newSource(s State) *source {
	src := &source{state: s}
	src.Feed = New(&src.mu, func() State {
		time.Sleep(src.cost)
		src.built++
		return src.state
	})
	return src
}

func (s *source) set(state State) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state = state
	s.ChangedLocked()
}

// recorder is a gRPC channel. It refuses the first lists.
type recorder struct {
	resolver.ClientConn
	refusals int           // the number of lists that it refuses
	cost     time.Duration // the time that an update takes

	mu      sync.Mutex
	updates []time.Time
	reports []string
	last    string // the address in the latest list
}

// updated returns the times of the updates.
func (r *recorder) updated() []time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.updates)
}

func (r *recorder) reported() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.reports)
}

func (r *recorder) UpdateState(s resolver.State) error {
	time.Sleep(r.cost)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.updates = append(r.updates, time.Now())
	if len(s.Endpoints) > 0 {
		r.last = s.Endpoints[0].Addresses[0].Addr
	}
	if r.refusals == 0 {
		return nil
	}
	r.refusals--
	return errors.New("bad resolver state")
}

func (r *recorder) ReportError(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reports = append(r.reports, err.Error())
}

func one(addr string) []resolver.Endpoint {
	return []resolver.Endpoint{{Addresses: []resolver.Address{{Addr: addr}}}}
}

// serve runs a test with a source and a channel in virtual time.
func serve(t *testing.T, first State, r *recorder, test func(t *testing.T, s *source, resolver resolver.Resolver)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := newSource(first)
		served := s.Resolve(r, nil, func() {})
		defer served.Close()
		synctest.Wait()
		test(t, s, served)
	})
}

// A list that the channel refuses is passed again, with growing pauses.
func TestRefusedListIsPassedAgain(t *testing.T) {
	r := &recorder{refusals: 12}
	serve(t, State{Endpoints: one("a")}, r, func(t *testing.T, s *source, _ resolver.Resolver) {
		time.Sleep(time.Hour)
		updates := r.updated()
		require.Len(t, updates, 13)
		require.Equal(t, firstRetry, updates[1].Sub(updates[0]))
		require.Equal(t, 2*firstRetry, updates[2].Sub(updates[1]))
		require.Equal(t, longestRetry, updates[12].Sub(updates[11]))
		require.Empty(t, r.reported())
	})
}

// A newer list replaces a refused one, and an equal list is not passed again.
func TestNewerListReplacesARefusedOne(t *testing.T) {
	r := &recorder{refusals: 1}
	serve(t, State{Endpoints: one("a")}, r, func(t *testing.T, s *source, _ resolver.Resolver) {
		s.set(State{Endpoints: one("b")})
		synctest.Wait()
		s.set(State{Endpoints: one("b")})
		time.Sleep(time.Hour)
		require.Len(t, r.updated(), 2)
	})
}

func TestCloseEndsUpdatesAndReleases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, s := &recorder{refusals: 100}, newSource(State{Endpoints: one("a")})
		resolved, released := 0, 0
		served := s.Resolve(r, func() { resolved++ }, func() { released++ })
		synctest.Wait()
		served.ResolveNow(resolver.ResolveNowOptions{})
		require.Equal(t, 1, resolved)
		served.Close()
		served.Close()
		require.Equal(t, 1, released)
		s.set(State{Endpoints: one("b"), Problem: "away"})
		time.Sleep(time.Hour)
		require.Len(t, r.updated(), 1)
		require.Empty(t, r.reported())
	})
}

// Close returns when the channel has processed its update.
func TestCloseWaitsForAnUpdate(t *testing.T) {
	r := &recorder{cost: time.Hour}
	serve(t, State{Endpoints: one("a")}, r, func(t *testing.T, s *source, served resolver.Resolver) {
		s.set(State{Endpoints: one("b")})
		served.Close()
		require.Len(t, r.updated(), 1)
	})
}

// An empty list, which policies refuse, is passed once. Its problem is reported after it, and
// otherwise once.
func TestEmptyListIsPassedOnce(t *testing.T) {
	const none, other = "none is registered", "etcd is unreachable"
	r := &recorder{refusals: 100}
	serve(t, State{}, r, func(t *testing.T, s *source, _ resolver.Resolver) {
		for _, step := range []struct {
			state   State
			updates int
			reports []string
		}{
			{State{Problem: none}, 0, []string{none}}, // there is no list yet
			{State{Problem: none}, 0, []string{none}},
			{State{Listed: true, Problem: none}, 1, []string{none, none}},
			{State{Listed: true, Problem: none}, 1, []string{none, none}},
			{State{Listed: true, Problem: other}, 1, []string{none, none, other}},
			{State{Listed: true}, 1, []string{none, none, other}},
			{State{Listed: true, Problem: other}, 1, []string{none, none, other, other}},
		} {
			s.set(step.state)
			time.Sleep(time.Hour)
			require.Len(t, r.updated(), step.updates)
			require.Equal(t, step.reports, r.reported())
		}
	})
}

// A State that is due is built again without a change.
func TestDueStateIsBuiltAgain(t *testing.T) {
	r := &recorder{}
	serve(t, State{}, r, func(t *testing.T, s *source, _ resolver.Resolver) {
		began := time.Now()
		s.set(State{Endpoints: one("a"), Due: began.Add(time.Minute)})
		synctest.Wait()
		s.mu.Lock()
		s.state = State{Endpoints: one("b")}
		s.mu.Unlock()
		time.Sleep(time.Hour)
		require.Equal(t, []time.Time{began, began.Add(time.Minute)}, r.updated())
		require.Equal(t, 3, s.built)
	})
}

// Under continuous changes a slow channel receives fewer lists.
func TestSlowChannelReceivesFewerLists(t *testing.T) {
	r := &recorder{cost: 10 * time.Millisecond}
	serve(t, State{}, r, func(t *testing.T, s *source, _ resolver.Resolver) {
		for i := range 1000 {
			s.set(State{Endpoints: one(strconv.Itoa(i))})
			time.Sleep(time.Millisecond)
		}
		time.Sleep(time.Second)
		require.InDelta(t, 50, len(r.updated()), 5)
		require.Equal(t, "999", r.last)
	})
}

// Under continuous changes building lists takes a fifth of the time, however many channels read them.
func TestBuildingTakesAFifthOfTheTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSource(State{})
		s.cost = 10 * time.Millisecond
		for began := time.Now(); time.Since(began) < time.Second; time.Sleep(time.Millisecond) {
			s.set(State{Endpoints: one("a")})
			for range 10 {
				last, changed := s.read()
				require.True(t, changed != nil || last.Due.After(time.Now()))
			}
		}
		require.InDelta(t, 20, s.built, 1)
	})
}

func TestChannelThatHangsDelaysNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSource(State{Endpoints: one("a")})
		slow, quick := &recorder{cost: time.Hour}, &recorder{}
		for _, r := range []*recorder{slow, quick} {
			defer s.Resolve(r, nil, func() {}).Close()
		}
		synctest.Wait()
		s.set(State{Endpoints: one("b")})
		synctest.Wait()
		require.Empty(t, slow.updated())
		require.Equal(t, "b", quick.last)
	})
}
