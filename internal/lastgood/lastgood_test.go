package lastgood_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/internal/lastgood"
)

func newGuard(delay, window time.Duration) *lastgood.Guard[string] {
	return &lastgood.Guard[string]{Key: func(s string) string { return s }, Delay: delay, Window: window}
}

// Each step is a time and the list of the source, or "fails"; each letter is an endpoint.
func TestGuard(t *testing.T) {
	type step struct {
		at   int // seconds
		list string
		want string // what is kept
		mass bool
	}
	for name, steps := range map[string][]step{
		"fewer are removed at once":           {{0, "abcd", "", false}, {5, "ab", "", false}, {25, "b", "", false}},
		"too many stay":                       {{0, "abcd", "", false}, {5, "d", "abc", true}, {19, "d", "abc", true}, {20, "d", "", false}},
		"all stay":                            {{0, "ab", "", false}, {5, "", "ab", true}, {20, "", "", false}},
		"the first answer is empty":           {{0, "", "", false}, {1, "a", "", false}},
		"they come back":                      {{0, "abcd", "", false}, {5, "", "abcd", true}, {10, "abcd", "", false}, {25, "abc", "", false}},
		"some come back":                      {{0, "abcd", "", false}, {5, "", "abcd", true}, {10, "ab", "", false}},
		"new ones are not delayed":            {{0, "abcd", "", false}, {5, "e", "abcd", true}, {20, "e", "", false}},
		"all are replaced":                    {{0, "abcd", "", false}, {5, "efgh", "", false}},
		"all are replaced, and then one goes": {{0, "abcd", "", false}, {5, "efgh", "", false}, {6, "efg", "", false}},
		"a single one is replaced":            {{0, "a", "", false}, {5, "b", "", false}},
		"one by one": {
			{0, "abcdef", "", false},
			{1, "bcdef", "", false},
			{2, "cdef", "", false},
			{3, "def", "", false},
			{4, "ef", "abcd", true},
			{15, "ef", "abcd", true},
			{16, "ef", "bcd", true},
			{17, "ef", "", false},
		},
		"slowly": {{0, "abcdef", "", false}, {16, "bcdef", "", false}, {32, "cdef", "", false}, {48, "def", "", false}, {64, "ef", "", false}},
		"time without a source does not count": {
			{0, "ab", "", false},
			{5, "", "ab", true},
			{10, "fails", "", false},
			{600, "fails", "", false},
			{601, "", "ab", true},
			{614, "", "ab", true},
			{615, "", "", false},
		},
		"an endpoint that was removed before the source was unreachable stays removed": {
			{0, "abcdef", "", false}, {5, "bcdef", "", false}, {6, "fails", "", false}, {7, "f", "bcde", true},
		},
	} {
		t.Run(name, func(t *testing.T) {
			g, start := newGuard(15*time.Second, 0), time.Unix(1e9, 0)
			for _, s := range steps {
				now := start.Add(time.Duration(s.at) * time.Second)
				if s.list == "fails" {
					g.Suspend(now)
					continue
				}
				kept := g.Update(now, strings.Split(s.list, "")[:len(s.list)], 0)
				slices.Sort(kept.Endpoints)
				assert.Equal(t, s.want, strings.Join(kept.Endpoints, ""), "at %d s", s.at)
				assert.Equal(t, s.mass, kept.Mass, "at %d s", s.at)
				assert.Equal(t, s.mass, !kept.Due.IsZero() && kept.Due.After(now), "at %d s", s.at)
			}
		})
	}
}

// A repeated answer of a cache is no confirmation.
func TestGuardWaitsForTheValidity(t *testing.T) {
	start := time.Unix(1e9, 0)
	for validity, want := range map[time.Duration]time.Duration{
		0: 15 * time.Second, 5 * time.Second: 15 * time.Second, 30 * time.Second: 30 * time.Second, time.Hour: 5 * time.Minute,
	} {
		g := newGuard(15*time.Second, 0)
		g.Update(start, []string{"a"}, time.Minute)
		assert.Equal(t, start.Add(want), g.Update(start, nil, validity).Due)
		assert.Len(t, g.Update(start.Add(want-1), nil, validity).Endpoints, 1, validity)
		assert.Empty(t, g.Update(start.Add(want), nil, validity).Endpoints, validity)
	}
	off := newGuard(-1, -1)
	off.Update(start, []string{"a", "b", "c"}, 0)
	assert.Empty(t, off.Update(start, nil, time.Hour).Endpoints)
}

// Partial answers, as of Consul (3), Route 53 and Cloud Map (8), are merged.
func TestGuardUnitesPartsOfAList(t *testing.T) {
	for _, c := range []struct {
		all, part     int
		ttl, interval time.Duration // of fresh answers, of lookups
	}{
		{24, 8, 0, 5 * time.Second}, {9, 8, 0, 5 * time.Second}, {12, 3, 0, 5 * time.Second}, {24, 8, time.Minute, 5 * time.Second},
	} {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			g, now := newGuard(15*time.Second, 5*time.Minute), time.Unix(1e9, 0)
			random := rand.New(rand.NewPCG(1, uint64(c.all)))
			var part []string
			var fresh time.Time
			lookUp := func() int {
				if now.Sub(fresh) >= c.ttl {
					part, fresh = nil, now
					for _, i := range random.Perm(c.all)[:c.part] {
						part = append(part, fmt.Sprint(i))
					}
				}
				return len(part) + len(g.Update(now, part, c.ttl).Endpoints)
			}
			for range 24 * max(1, int(c.ttl/c.interval)) { // until all are known
				lookUp()
				now = now.Add(c.interval)
			}
			require.True(t, g.Rotating(now))
			changes := 0
			for before, i := lookUp(), 0; i < 720; i++ { // an hour
				now = now.Add(c.interval)
				n := lookUp()
				if n != before {
					changes++
				}
				before = n
			}
			assert.LessOrEqual(t, changes, 2)
			assert.Equal(t, c.all, lookUp())

			// Endpoints that are gone for good are removed.
			c.all--
			now = now.Add(c.interval)
			for range int(max(5*time.Minute, 30*c.ttl)/c.interval) * 3 / 2 {
				lookUp()
				now = now.Add(c.interval)
			}
			assert.Equal(t, c.all, lookUp())
			// An empty answer is not partial.
			g.Update(now, nil, 0)
			assert.Empty(t, g.Update(now.Add(15*time.Second), nil, 0).Endpoints)
		})
	}
}

// Failures prolong the window by the time without an answer, however long, and do not begin it again.
func TestFailuresWithinTheWindow(t *testing.T) {
	g, now := newGuard(15*time.Second, 5*time.Minute), time.Unix(1e9, 0)
	answers := [][]string{{"a", "b", "c"}, {"d", "e", "f"}, {"g", "h", "i"}}
	lookUp := func(times int) (n int) {
		for i := range times {
			now = now.Add(5 * time.Second)
			if i%48 == 24 {
				g.Suspend(now)
			} else {
				n = len(answers[i%3]) + len(g.Update(now, answers[i%3], 0).Endpoints)
			}
		}
		return n
	}
	require.Equal(t, 9, lookUp(24))
	answers[2][2] = "a"
	require.Equal(t, 9, lookUp(60))
	require.Equal(t, 8, lookUp(6))
	now = now.Add(time.Hour)
	g.Suspend(now)
	require.Len(t, g.Update(now, answers[2], 0).Endpoints, 5, "the same answer as before the outage")
	require.Equal(t, 8, lookUp(1))
}

// Rollouts are not partial answers: the number stays, but nothing returns.
func TestGuardRecognizesRollouts(t *testing.T) {
	g, now := newGuard(15*time.Second, 5*time.Minute), time.Unix(1e9, 0)
	for i := range 100 {
		list := []string{fmt.Sprint(i), fmt.Sprint(i + 1), fmt.Sprint(i + 2), fmt.Sprint(i + 3)}
		kept := g.Update(now, list, 0)
		assert.LessOrEqual(t, len(kept.Endpoints), 3, "replaced endpoints stay for Delay")
		assert.False(t, kept.Mass)
		now = now.Add(5 * time.Second)
	}
	assert.False(t, g.Rotating(now))
	// A rollback is none, nor is an address that another backend gets.
	for range 10 {
		for _, list := range [][]string{{"a", "b", "c"}, {"d", "e", "f"}, {"d", "e", "g"}} {
			assert.Empty(t, keptAfterAMinute(g, &now, list...))
		}
	}
	// An endpoint that comes and goes is not recognized as rotation either.
	for range 100 {
		assert.Empty(t, keptAfterAMinute(g, &now, "a", "b", "c", "d"))
		assert.Empty(t, keptAfterAMinute(g, &now, "a", "b", "c"))
	}
}

// keptAfterAMinute returns what the guard keeps once the source has returned the same list for a minute.
func keptAfterAMinute(g *lastgood.Guard[string], now *time.Time, list ...string) (kept []string) {
	for range 12 {
		*now = now.Add(5 * time.Second)
		kept = g.Update(*now, list, 0).Endpoints
	}
	return kept
}

// source has a list, and whether it is worth keeping.
type source struct {
	list string
	good bool
}

func (s *source) Stop() (string, bool) { return s.list, s.good }

func newRegistry(maxAge time.Duration) *lastgood.Registry[int, *source, string] {
	return lastgood.NewRegistry(maxAge, func(_ int, last string, ok bool) *source { return &source{last, ok} })
}

// One source serves all users of a key; the next one starts with its state, for a while.
func TestRegistry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRegistry(time.Hour)
		first := r.Acquire(1)
		require.Same(t, first, r.Acquire(1))
		require.NotSame(t, first, r.Acquire(2))
		r.Release(2)
		require.False(t, first.good, "no state was kept")
		first.list, first.good = "a", true
		r.Release(1)
		time.Sleep(2 * time.Hour)
		require.Same(t, first, r.Acquire(1), "it runs")
		r.Release(1)
		r.Release(1)

		time.Sleep(time.Hour - 1)
		second := r.Acquire(1)
		require.Equal(t, source{"a", true}, *second)
		second.good = false
		r.Release(1)
		third := r.Acquire(1)
		require.Equal(t, source{}, *third, "a state not worth keeping")
		third.good = true
		r.Release(1)
		time.Sleep(time.Hour)
		require.False(t, r.Acquire(1).good, "an expired state")

		none := newRegistry(-1)
		none.Acquire(1).good = true
		none.Release(1)
		require.False(t, none.Acquire(1).good)
	})
}

// A program that opens channels to ever new targets needs bounded memory.
func TestRegistryIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRegistry(time.Hour)
		for i := range lastgood.MaxIdle + 10 {
			r.Acquire(i).good = true
			r.Release(i)
			time.Sleep(time.Millisecond)
		}
		require.False(t, r.Acquire(9).good, "the oldest are forgotten")
		require.True(t, r.Acquire(10).good)
	})
}
