package dns

import (
	"cmp"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// TestRecord checks a sequence of answers, one every 5 s. "4" and "6" are addresses of the
// families, "4?" is an answer for which the lookup of IPv6 failed, "7" has seven addresses,
// "other" is an answer for another search domain while the first has no records, "-" is an empty
// answer, "-20" one that is valid for 20 s, and "!" a failure.
func TestRecord(t *testing.T) {
	v4, v6 := backend{addrs: parse("10.0.0.1")}, backend{addrs: parse("2001:db8::1")}
	var seven []backend
	for i := range 7 {
		seven = append(seven, backend{addrs: parse(fmt.Sprintf("10.0.0.%d", i+1))})
	}
	q := question{name: "svc"}
	answered := func(a answer) func(*record, time.Time) {
		a.ttl, a.name = unknownTTL, cmp.Or(a.name, "svc.a.")
		return func(r *record, now time.Time) { r.answered(now, q, a) }
	}
	steps := map[string]func(*record, time.Time){
		"4":     answered(answer{backends: []backend{v4}}),
		"6":     answered(answer{backends: []backend{v6}}),
		"46":    answered(answer{backends: []backend{v4, v6}}),
		"4?":    answered(answer{backends: []backend{v4}, missing: FamilyIPv6}),
		"7":     answered(answer{backends: seven}),
		"other": answered(answer{backends: []backend{v6}, name: "svc.b.", moved: true}),
		"-":     func(r *record, now time.Time) { r.empty(now, "nothing", unknownTTL) },
		"-20":   func(r *record, now time.Time) { r.empty(now, "nothing", 20*time.Second) },
		"!":     func(r *record, now time.Time) { r.failure(now, "failed") },
	}
	type state struct {
		listed  bool
		n       int
		problem string
	}
	const half, other, gone = `looking up the IPv6 addresses of "svc" failed`, `"svc" is found as "svc.b." and no longer as "svc.a."`, `6 of 7 backends of "svc" disappeared at once`
	for _, c := range []struct {
		name  string
		steps string
		want  state
	}{
		{"at first", "", state{}},
		{"answer", "4", state{true, 1, ""}},
		{"first empty answer", "-", state{true, 0, "nothing"}},
		{"first failure", "! ! ! !", state{false, 0, "failed"}},
		{"empty for 10 s", "4 - - -", state{true, 1, "nothing" + keeping(1)}},
		{"empty for 15 s", "4 - - - -", state{true, 0, "nothing"}},
		{"an empty answer that is valid for 20 s", "4 -20 -20 -20 -20", state{true, 1, "nothing" + keeping(1)}},
		{"after these", "4 -20 -20 -20 -20 -20", state{true, 0, "nothing"}},
		{"a failure in between", "4 - - - ! - -", state{true, 1, "nothing" + keeping(1)}},
		{"an answer in between", "4 - - - 4 - - -", state{true, 1, "nothing" + keeping(1)}},
		{"back after empty", "4 - - - - 46", state{true, 2, ""}},
		{"empty for long, then a failure", "4 - - - - !", state{true, 0, "failed"}},
		{"failures keep the list", "4 ! ! ! ! !", state{true, 1, "failed" + keeping(1)}},
		{"half an answer at first", "4?", state{true, 1, ""}},
		{"half an answer, nothing missing", "4 4?", state{true, 1, ""}},
		{"half an answer", "46 4? 4? 4?", state{true, 2, half + keeping(2)}},
		{"half an answer for 15 s", "46 4? 4? 4? 4?", state{true, 1, ""}},
		{"half an answer, and then none", "46 4? 4? 4? 46 4?", state{true, 2, half + keeping(2)}},
		{"most are gone", "7 4 4 4", state{true, 7, gone + keeping(7)}},
		{"most are gone for 15 s", "7 4 4 4 4", state{true, 1, ""}},
		{"another search domain", "4 other other other", state{true, 1, other + keeping(1)}},
		{"another search domain for 15 s", "4 other other other other", state{true, 1, ""}},
		{"back in the first", "4 other other other 46", state{true, 2, ""}},
	} {
		r, now := newRecord(Config{}.withDefaults()), time.Unix(1e9, 0)
		for _, s := range strings.Fields(c.steps) {
			steps[s](&r, now)
			now = now.Add(5 * time.Second)
		}
		got := state{listed: r.listed, n: len(r.backends), problem: strings.TrimPrefix(r.problem, "dns: ")}
		assert.Equal(t, c.want, got, c.name)
	}
}

// When most backends of both families are gone, the one that is left has both of its addresses, and is not kept with one besides.
func TestMassRemovalOfBothFamilies(t *testing.T) {
	for usual, other := range map[string]string{"10.0.0.%d": "2001:db8::1", "2001:db8::%d": "10.0.0.1"} {
		r, now, q := newRecord(Config{}.withDefaults()), time.Unix(1e9, 0), question{name: "svc"}
		var all []backend
		for i := range 3 {
			all = append(all, backend{addrs: parse(fmt.Sprintf(usual, i+1))})
		}
		r.answered(now, q, answer{backends: all})
		left := []backend{{addrs: parse(fmt.Sprintf(usual, 1), other)}}
		r.answered(now, q, answer{backends: left})
		assert.Equal(t, append(left, all[1:]...), r.backends)
	}
}

// within checks that many delays are between least and most, and not all equal.
func within(t *testing.T, least, most time.Duration, draw func() time.Duration) {
	t.Helper()
	seen := map[time.Duration]bool{}
	for range 1000 {
		d := draw()
		seen[d] = true
		assert.GreaterOrEqual(t, d, least)
		assert.LessOrEqual(t, d, most)
	}
	if least < most {
		assert.Greater(t, len(seen), 100, "it is not random")
	}
}

func TestDelayAfterAnswers(t *testing.T) {
	s := Config{Interval: 5 * time.Second, MinInterval: time.Second}
	for _, c := range []struct{ ttl, least, most time.Duration }{
		{unknownTTL, 4500 * time.Millisecond, 5 * time.Second},
		{0, 4500 * time.Millisecond, 5 * time.Second},
		{time.Hour, 4500 * time.Millisecond, 5 * time.Second},
		{5 * time.Second, 5 * time.Second, 5 * time.Second},
		{4800 * time.Millisecond, 4800 * time.Millisecond, 5 * time.Second},
		{2 * time.Second, 2 * time.Second, 2200 * time.Millisecond},
		{time.Millisecond, time.Second, 1100 * time.Millisecond},
	} {
		within(t, c.least, c.most, func() time.Duration { return s.afterAnswer(c.ttl) })
	}
	within(t, 2500*time.Millisecond, 5*time.Second, func() time.Duration { return s.spread(5 * time.Second) })
	within(t, time.Second, 1200*time.Millisecond, func() time.Duration { return s.spread(1200 * time.Millisecond) })
	// A long interval lets the TTL decide.
	s.Interval = 10 * time.Minute
	within(t, 30*time.Second, 33*time.Second, func() time.Duration { return s.afterAnswer(30 * time.Second) })
}

func TestDelayAfterFailures(t *testing.T) {
	s := Config{Interval: 5 * time.Second, MinInterval: time.Second}
	for n, c := range map[int]struct{ least, most time.Duration }{
		1:    {time.Second, 1100 * time.Millisecond},
		2:    {2 * time.Second, 2200 * time.Millisecond},
		3:    {4 * time.Second, 4400 * time.Millisecond},
		4:    {5 * time.Second, 5500 * time.Millisecond},
		1000: {5 * time.Second, 5500 * time.Millisecond},
	} {
		within(t, c.least, c.most, func() time.Duration { return s.afterFailure(n) })
	}
	s.Interval = time.Hour
	within(t, 30*time.Second, 33*time.Second, func() time.Duration { return s.afterFailure(1000) })
}

// The confirmation is never put off by a lookup that comes shortly before it.
func TestDelayUntilConfirmed(t *testing.T) {
	s := Config{Interval: 5 * time.Second, MinInterval: time.Second}
	for _, c := range []struct{ usual, due, want time.Duration }{
		{5 * time.Second, 15 * time.Second, 5 * time.Second},
		{5 * time.Second, 6 * time.Second, 5 * time.Second},
		{5 * time.Second, 5900 * time.Millisecond, 5900 * time.Millisecond},
		{5 * time.Second, 3 * time.Second, 3 * time.Second},
		{5 * time.Second, time.Millisecond, time.Second},
		{5 * time.Second, -time.Second, time.Second},
	} {
		assert.Equal(t, c.want, s.untilConfirmed(c.usual, c.due), "%v", c)
	}
}
