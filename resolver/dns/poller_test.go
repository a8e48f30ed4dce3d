package dns

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/resolver"

	"github.com/quorate/quorate/internal/grpctest"
)

// keeping is the end of the text reported with a list that stays.
func keeping(n int) string { return fmt.Sprintf(" (keeping the last good list, of %d)", n) }

// A change is seen within an interval, and what has not changed is not published again.
func TestPolls(t *testing.T) {
	scripted(t, func(t *testing.T, s *script) {
		s.has("svc", "10.0.0.2", "10.0.0.1")
		cc := follow(t, newBuilder(t, Config{Resolver: s}), "dns:///svc:80")
		cc.requireLists(t, "10.0.0.1:80 10.0.0.2:80")

		time.Sleep(10 * time.Minute)
		times := s.times("svc")
		require.Greater(t, len(times), 100)
		for i := 2; i < len(times); i++ {
			gap := times[i].Sub(times[i-1])
			assert.True(t, 4500*time.Millisecond <= gap && gap <= 5*time.Second, gap)
		}
		s.has("svc", "10.0.0.3", "10.0.0.2", "10.0.0.1")
		time.Sleep(5 * time.Second)
		cc.requireLists(t, "10.0.0.1:80 10.0.0.2:80", "10.0.0.1:80 10.0.0.2:80 10.0.0.3:80")
		cc.requireErrors(t)
	})
}

// A hundred channels cause as many lookups as one, and each has its own port.
func TestLookupsAreShared(t *testing.T) {
	scripted(t, func(t *testing.T, s *script) {
		s.has("svc", "10.0.0.1")
		s.takes(50 * time.Millisecond)
		b := newBuilder(t, Config{Resolver: s})
		var channels []resolver.Resolver
		var ccs []clientConn
		for i := range 100 {
			r, cc := open(t, b, fmt.Sprintf("dns:///SVC:%d", 1000+i%2))
			channels, ccs = append(channels, r), append(ccs, cc)
		}
		time.Sleep(30 * time.Second)
		for i, cc := range ccs {
			cc.requireLists(t, fmt.Sprintf("10.0.0.1:%d", 1000+i%2))
		}
		require.LessOrEqual(t, len(s.times("svc")), 8, "30 s have 6 intervals of 4.5 s, a first lookup and a short first interval")
		require.GreaterOrEqual(t, len(s.times("svc")), 6)

		// A channel that joins has the answer at once.
		n := len(s.times("svc"))
		r, cc := open(t, b, "dns:///svc")
		cc.requireLists(t, "10.0.0.1:443")
		require.Len(t, s.times("svc"), n)

		// When all but one leave, lookups continue. When the last one leaves, they end.
		for _, c := range channels {
			c.Close()
		}
		time.Sleep(10 * time.Second)
		require.Greater(t, len(s.times("svc")), n)
		r.Close()
		n = len(s.times("svc"))
		time.Sleep(time.Minute)
		require.Len(t, s.times("svc"), n)
	})
}

// The last good list stays while the server fails; each reason is reported once.
func TestFailuresKeepTheList(t *testing.T) {
	scripted(t, func(t *testing.T, s *script) {
		s.has("svc", "10.0.0.1", "10.0.0.2")
		b := newBuilder(t, Config{Resolver: s})
		cc := follow(t, b, "dns:///svc:80")
		time.Sleep(time.Minute)
		began := time.Now()
		s.fails("svc", errServerFailure)
		time.Sleep(10 * time.Minute)
		failed := `dns: looking up the addresses of "svc": server misbehaving` + keeping(2)
		cc.requireLists(t, "10.0.0.1:80 10.0.0.2:80")
		cc.requireErrors(t, failed)

		var retries []time.Duration
		var last time.Time
		for _, at := range s.times("svc") {
			if last.After(began) {
				retries = append(retries, at.Sub(last).Truncate(time.Second))
			}
			last = at
		}
		require.Equal(t, []time.Duration{time.Second, 2 * time.Second, 4 * time.Second, 5 * time.Second, 5 * time.Second}, retries[:5])

		// A channel that joins now receives both.
		late := follow(t, b, "dns:///svc:81")
		late.requireLists(t, "10.0.0.1:81 10.0.0.2:81")
		late.requireErrors(t, failed)

		// A silent server is another problem.
		s.takes(time.Minute)
		time.Sleep(time.Minute)
		silent := `dns: looking up the addresses of "svc": no answer in time` + keeping(2)
		cc.requireErrors(t, failed, silent)

		s.takes(0)
		s.has("svc", "10.0.0.1")
		time.Sleep(time.Minute)
		cc.requireLists(t, "10.0.0.1:80 10.0.0.2:80", "10.0.0.1:80")
		cc.requireErrors(t, failed, silent)
	})
}

// Without a list, calls fail with the reason.
func TestFailureFromTheStart(t *testing.T) {
	scripted(t, func(t *testing.T, s *script) {
		s.fails("svc", errors.New("no route to host"))
		cc := follow(t, newBuilder(t, Config{Resolver: s}), "dns:///svc:80")
		time.Sleep(time.Minute)
		cc.requireLists(t)
		cc.requireErrors(t, `dns: looking up the addresses of "svc": no route to host`)
		s.has("svc", "10.0.0.1")
		time.Sleep(6 * time.Second)
		cc.requireLists(t, "10.0.0.1:80")
	})
}

// An empty answer is published after MassRemovalDelay.
func TestEmptyAnswers(t *testing.T) {
	scripted(t, func(t *testing.T, s *script) {
		s.has("svc", "10.0.0.1")
		cc := follow(t, newBuilder(t, Config{Resolver: s}), "dns:///svc:80")
		time.Sleep(time.Minute)
		s.fails("svc", errNoSuchHost)
		empty := `dns: "svc" has no addresses: no such host`
		time.Sleep(14900 * time.Millisecond)
		cc.requireLists(t, "10.0.0.1:80")
		cc.requireErrors(t, empty+keeping(1))

		time.Sleep(5200 * time.Millisecond) // the first was after up to 5 s
		cc.requireLists(t, "10.0.0.1:80", "")
		cc.requireErrors(t, empty+keeping(1), empty)

		s.has("svc") // an answer without addresses is equivalent
		time.Sleep(time.Minute)
		cc.requireLists(t, "10.0.0.1:80", "")
		s.has("svc", "10.0.0.2")
		time.Sleep(5 * time.Second)
		cc.requireLists(t, "10.0.0.1:80", "", "10.0.0.2:80")
	})
}

// A doubted answer is confirmed when the delay ends, however long the interval is.
func TestMassRemovalIsConfirmed(t *testing.T) {
	scripted(t, func(t *testing.T, s *script) {
		s.has("svc", "10.0.0.1", "10.0.0.2", "10.0.0.3")
		r, cc := open(t, newBuilder(t, Config{Resolver: s, Interval: time.Hour}), "dns:///svc:80")
		defer r.Close()
		synctest.Wait()
		s.has("svc", "10.0.0.1")
		time.Sleep(time.Minute)
		r.ResolveNow(resolver.ResolveNowOptions{})
		time.Sleep(DefaultMassRemovalDelay - 1)
		synctest.Wait()
		const all = "10.0.0.1:80 10.0.0.2:80 10.0.0.3:80"
		cc.requireLists(t, all)
		cc.requireErrors(t, `dns: 2 of 3 backends of "svc" disappeared at once`+keeping(3))
		time.Sleep(time.Nanosecond)
		cc.requireLists(t, all, "10.0.0.1:80")
		require.Len(t, s.times("svc"), 3)
	})
}

// The log has a line when a fault begins, when backends are removed, and when it ends.
func TestLog(t *testing.T) {
	scripted(t, func(t *testing.T, s *script) {
		s.has("logged", "10.0.0.1")
		b := newBuilder(t, Config{Resolver: s})
		before := len(log.About(`"logged"`)) // of earlier runs
		for range 10 {
			follow(t, b, "dns:///logged:80")
		}
		time.Sleep(time.Minute)
		for _, err := range []error{errServerFailure, errNoSuchHost} {
			s.fails("logged", err)
			time.Sleep(time.Hour)
		}
		s.has("logged", "10.0.0.1", "10.0.0.2")
		time.Sleep(time.Hour)
		require.Equal(t, []string{
			`dns: looking up the addresses of "logged": server misbehaving` + keeping(1),
			`dns: "logged" has no addresses: no such host`,
			`dns: "logged" is looked up again, with 2 backends`,
		}, log.About(`"logged"`)[before:])
	})
}

// Channels come and go while the answers change, and gRPC requests lookups.
func TestStorm(t *testing.T) {
	s := newScript()
	s.has("svc", "10.0.0.1")
	s.hasSRV(srvName, srvRecord("svc", 1, 0, 0))
	b := newBuilder(t, Config{Resolver: s, Interval: 10 * time.Millisecond})
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for n := range 100 {
				target := []string{"dns:///svc:80", "dns:///" + srvName, "dns:///none:80", "dns:///10.0.0.1:80"}[(i+n)%4]
				r, err := b.Build(grpctest.Target(t, target), grpctest.NewChannel(), resolver.BuildOptions{})
				if !assert.NoError(t, err) {
					return
				}
				r.ResolveNow(resolver.ResolveNowOptions{})
				time.Sleep(time.Duration(n%5) * time.Millisecond)
				s.has("svc", fmt.Sprintf("10.0.0.%d", n+1))
				r.Close()
			}
		})
	}
	wg.Wait() // TestMain finds leaked goroutines
}

// However often gRPC requests a lookup, there is at most one per MinInterval, and the first is
// immediate.
func TestResolveNow(t *testing.T) {
	scripted(t, func(t *testing.T, s *script) {
		s.has("svc", "10.0.0.1")
		b := newBuilder(t, Config{Resolver: s, Interval: time.Hour})
		var channels []resolver.Resolver
		for range 10 {
			r, _ := open(t, b, "dns:///svc:80")
			defer r.Close()
			channels = append(channels, r)
		}
		time.Sleep(10 * time.Second)
		require.Len(t, s.times("svc"), 1)
		began := time.Now()
		for range 1000 {
			for _, r := range channels {
				r.ResolveNow(resolver.ResolveNowOptions{})
			}
			time.Sleep(10 * time.Millisecond)
		}
		times := s.times("svc")[1:]
		require.Equal(t, began, times[0], "the first is immediate")
		require.GreaterOrEqual(t, len(times), 10, "10 s")
		require.LessOrEqual(t, len(times), 11)
		for i := 1; i < len(times); i++ {
			require.GreaterOrEqual(t, times[i].Sub(times[i-1]), time.Second)
		}
		// A lookup requested too early follows.
		time.Sleep(time.Minute)
		require.LessOrEqual(t, len(s.times("svc")), 13)
		// Requests do not end the backoff.
		s.fails("svc", errServerFailure)
		before := len(s.times("svc"))
		for range 60 {
			channels[0].ResolveNow(resolver.ResolveNowOptions{})
			time.Sleep(time.Second)
		}
		require.LessOrEqual(t, len(s.times("svc"))-before, 7, "1, 2, 4, 8, 16 and 30 s apart")
	})
}

// A channel that leaves idle mode continues with a valid answer, without a lookup.
func TestIdle(t *testing.T) {
	scripted(t, func(t *testing.T, s *script) {
		s.has("svc", "10.0.0.1")
		b := newBuilder(t, Config{Resolver: s})
		for range 60 {
			r, cc := open(t, b, "dns:///svc:80")
			cc.requireLists(t, "10.0.0.1:80")
			cc.requireErrors(t)
			r.Close()
			time.Sleep(time.Second)
		}
		require.LessOrEqual(t, len(s.times("svc")), 21, "an answer lasts for at least half an interval")
		require.GreaterOrEqual(t, len(s.times("svc")), 11)

		// An expired answer is not used if there is an answer within 0.3 s, and is replaced as a
		// whole.
		s.has("svc", "10.0.0.1", "10.0.0.2", "10.0.0.3")
		r, _ := open(t, b, "dns:///svc:80")
		time.Sleep(5 * time.Second)
		r.Close()
		time.Sleep(6 * time.Second)
		s.has("svc", "10.0.0.2")
		s.takes(250 * time.Millisecond)
		cc := follow(t, b, "dns:///svc:80")
		time.Sleep(time.Minute)
		cc.requireLists(t, "10.0.0.2:80")
		cc.requireErrors(t)
	})
}

// A channel that opens or leaves idle mode while DNS is unreachable starts with the last list, and
// reports that.
func TestLastListOutlivesItsChannels(t *testing.T) {
	const failed = `dns: looking up the addresses of "kept": server misbehaving`
	for name, c := range map[string]struct {
		fault func(s *script)
		idle  time.Duration
		after time.Duration
		lists []string
		errs  []string
	}{
		"failing": {func(s *script) { s.fails("kept", errServerFailure) }, 59 * time.Minute, 0, []string{"10.0.0.1:80"}, []string{failed + keeping(1)}},
		"silent": {
			func(s *script) { s.takes(time.Hour) }, 59 * time.Minute, staleAfter,
			[]string{"10.0.0.1:80"},
			[]string{`dns: no answer yet about the addresses of "kept"` + keeping(1)},
		},
		"no name": {func(s *script) { s.fails("kept", errNoSuchHost) }, 59 * time.Minute, 0, []string{"10.0.0.1:80"}, []string{`dns: "kept" has no addresses: no such host` + keeping(1)}},
		"too old": {func(s *script) { s.fails("kept", errServerFailure) }, time.Hour, 0, nil, []string{failed}},
	} {
		t.Run(name, func(t *testing.T) {
			scripted(t, func(t *testing.T, s *script) {
				s.has("kept", "10.0.0.1")
				b := newBuilder(t, Config{Resolver: s})
				r, _ := open(t, b, "dns:///kept:80")
				time.Sleep(time.Minute)
				r.Close()
				c.fault(s)
				time.Sleep(c.idle)
				before := len(log.About(`"kept"`))
				for range 2 { // the second joins
					cc := follow(t, b, "dns:///kept:80")
					time.Sleep(c.after)
					cc.requireLists(t, c.lists...)
					cc.requireErrors(t, c.errs...)
				}
				require.Equal(t, c.errs, log.About(`"kept"`)[before:])

				s.takes(0)
				s.has("kept", "10.0.0.2", "10.0.0.3")
				time.Sleep(10 * time.Second)
				cc := follow(t, b, "dns:///kept:80")
				cc.requireLists(t, "10.0.0.2:80 10.0.0.3:80")
				cc.requireErrors(t)
			})
		})
	}
}

// Channels that come and go while DNS is unreachable cause no more lookups than one that stays.
func TestChannelsComeAndGo(t *testing.T) {
	scripted(t, func(t *testing.T, s *script) {
		s.has("svc", "10.0.0.1")
		b := newBuilder(t, Config{Resolver: s})
		for range 600 {
			r, _ := open(t, b, "dns:///svc:80")
			synctest.Wait()
			s.fails("svc", errServerFailure)
			time.Sleep(100 * time.Millisecond)
			r.Close()
			synctest.Wait()
		}
		require.LessOrEqual(t, len(s.times("svc")), 61, "one in a second")
	})
}

// Partial answers (Consul, Route 53, Cloud Map) are merged.
func TestRotatingAnswers(t *testing.T) {
	scripted(t, func(t *testing.T, s *script) {
		all := make([]string, 24)
		for i := range all {
			all[i] = fmt.Sprintf("10.0.0.%d", i+1)
		}
		part := func() []string {
			rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
			return all[:8]
		}
		s.has("rotating", part()...)
		before := len(log.About(`"rotating"`))
		cc := follow(t, newBuilder(t, Config{Resolver: s}), "dns:///rotating:80")
		synctest.Wait()
		removed := 0
		for range 60 { // 5 minutes
			time.Sleep(5 * time.Second)
			s.has("rotating", part()...)
		}
		lists, errs := cc.updates()
		for i := range lists[1:] {
			for a := range strings.FieldsSeq(lists[i]) {
				if !slices.Contains(strings.Fields(lists[i+1]), a) {
					removed++
				}
			}
		}
		t.Logf("%d lists, %d removals", len(lists), removed)
		require.LessOrEqual(t, len(lists), 24, "each adds at least one")
		require.LessOrEqual(t, removed, 1)
		require.Len(t, cc.endpoints(), 24)
		require.Empty(t, errs)
		require.Len(t, log.About(`"rotating"`)[before:], 1)
	})
}

// Close does not wait for a lookup, and no update follows it.
func TestCloseDuringALookup(t *testing.T) {
	scripted(t, func(t *testing.T, s *script) {
		s.has("svc", "10.0.0.1")
		s.takes(time.Second)
		b := newBuilder(t, Config{Resolver: s})
		began := time.Now()
		r, cc := open(t, b, "dns:///svc:80")
		r.Close()
		require.Equal(t, began, time.Now())
		time.Sleep(10 * time.Second)
		cc.requireLists(t)
		cc.requireErrors(t)
		require.LessOrEqual(t, len(s.times("svc")), 1)
	})
}

func TestServerInTargetExcludesConfigResolver(t *testing.T) {
	_, err := newBuilder(t, Config{Resolver: newScript()}).Build(grpctest.Target(t, "dns://10.0.0.10/svc:80"), grpctest.NewChannel(), resolver.BuildOptions{})
	require.EqualError(t, err, `dns: bad target "dns://10.0.0.10/svc:80": it names a DNS server, but Config.Resolver answers all lookups; leave the server out`)
}
