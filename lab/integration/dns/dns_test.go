// Package dns_test uses resolver/dns with a DNS server and gRPC servers.
package dns_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"

	"github.com/quorate/quorate/lab/internal/nameserver"
	"github.com/quorate/quorate/resolver/dns"
)

var policies = []string{"round_robin", "quorate_round_robin"}

// A service grows from two backends to four and shrinks to three. Connections to those that
// stay are left alone. gRPC's own resolver, beside it, sees nothing of that.
func TestScaling(t *testing.T) {
	for _, policy := range policies {
		t.Run(policy, func(t *testing.T) {
			ns := nameserver.Start(t, "")
			port, all := startBackends(t, "127.0.0.11", "127.0.0.12", "127.0.0.13", "127.0.0.14")
			ns.Set(t, "svc.test. A", addresses(all, 30, 2)...)
			target := "dns://" + ns.Addr + "/svc.test.:" + port
			conn := dial(t, newBuilder(t, dns.Config{}), target, policy)
			until(t, conn, all, 2)
			theirs := dial(t, nil, target, policy)
			until(t, theirs, all, 2)

			ns.Set(t, "svc.test. A", addresses(all, 30, 4)...)
			before, began := ns.Asked("svc.test. A"), time.Now()
			until(t, conn, all, 4)
			took := time.Since(began)
			t.Logf("four backends after %v and %d lookups, of which there is one in %v", took, ns.Asked("svc.test. A")-before, interval)
			// What is asked now was asked every interval since.
			eventually(t, "there are no lookups any more", func() bool { return ns.Asked("svc.test. A") >= before+4 })
			assert.Subset(t, []string{all[0].ip, all[1].ip}, mustCall(t, theirs, 40), "gRPC's own resolver looks up when a connection is lost")
			for i, b := range all {
				want := int64(1)
				if i < 2 {
					want = 2 // theirs
				}
				assert.Equal(t, want, b.accepted.Load(), "connections of %s", b.ip)
			}

			ns.Set(t, "svc.test. A", addresses(all, 30, 3)...)
			until(t, conn, all, 3)
			assert.Equal(t, []int64{2, 2, 1, 1}, []int64{
				all[0].accepted.Load(), all[1].accepted.Load(), all[2].accepted.Load(), all[3].accepted.Load(),
			})
		})
	}
}

// While the DNS server fails, or says nothing, the last good list stays and no call fails.
// Then the resolver sees what has changed.
func TestFaultsOfTheServer(t *testing.T) {
	for name, behaviour := range map[string]nameserver.Behaviour{"failing": nameserver.Failing, "silent": nameserver.Silent} {
		t.Run(name, func(t *testing.T) {
			ns := nameserver.Start(t, "")
			port, all := startBackends(t, "127.0.0.11", "127.0.0.12", "127.0.0.13")
			ns.Set(t, "svc.test. A", addresses(all, 0, 2)...)
			b := newBuilder(t, dns.Config{Server: ns.Addr, Timeout: 2 * interval})
			// This policy gives each backend every second call. Ours leaves one that is slow for a while.
			conn := dial(t, b, "dns:///svc.test.:"+port, "round_robin")
			until(t, conn, all, 2)

			ns.Be(behaviour)
			ns.Set(t, "svc.test. A", addresses(all, 0, 3)...)
			for since := ns.Asked("svc.test. A"); ns.Asked("svc.test. A") < since+6; {
				require.Equal(t, []string{all[0].ip, all[1].ip}, mustCall(t, conn, 20))
			}
			// A channel that joins has the list as well.
			joined := dial(t, b, "dns:///svc.test.:"+port, "quorate_round_robin")
			until(t, joined, all, 2)

			ns.Be(nameserver.WellBehaved)
			until(t, conn, all, 3)
			until(t, joined, all, 3)
		})
	}
}

// Calls that have no backends get an error with the reason, and what the DNS server said.
func TestReasonsReachTheCaller(t *testing.T) {
	ns := nameserver.Start(t, "")
	for _, c := range []struct{ policy, target, name, what string }{
		{"pick_first", "dns:///no.test.:80", "no.test.", "addresses"},
		{"round_robin", "dns:///no.test.:80", "no.test.", "addresses"},
		{"quorate_p2c", "dns:///_grpc._tcp.no.test.", "_grpc._tcp.no.test.", "SRV records"},
	} {
		for m, want := range map[nameserver.Behaviour]string{
			nameserver.WellBehaved: fmt.Sprintf("dns: %q has no %s: no such host (DNS server %s)", c.name, c.what, ns.Addr),
			nameserver.Failing:     fmt.Sprintf("dns: looking up the %s of %q: server misbehaving (DNS server %s)", c.what, c.name, ns.Addr),
			nameserver.Silent:      fmt.Sprintf("dns: looking up the %s of %q: no answer within %v (DNS server %s)", c.what, c.name, interval, ns.Addr),
		} {
			ns.Be(m)
			cfg := dns.Config{Server: ns.Addr}
			if m == nameserver.Silent {
				cfg.Timeout = interval
			}
			_, err := call(t, dial(t, newBuilder(t, cfg), c.target, c.policy))
			assert.ErrorContains(t, err, want)
		}
	}
	_, err := call(t, dial(t, newBuilder(t, dns.Config{}), "dns:///svc.test.:port:80", "round_robin"))
	require.ErrorContains(t, err, `dns: bad target "dns:///svc.test.:port:80": "svc.test.:port:80" is not host:port`)
}

// A hundred channels cause the lookups of one.
func TestHundredChannels(t *testing.T) {
	ns := nameserver.Start(t, "")
	port, all := startBackends(t, "127.0.0.11", "127.0.0.12")
	ns.Set(t, "svc.test. A", addresses(all, 30, 2)...)
	b := newBuilder(t, dns.Config{Server: ns.Addr})
	conns := make([]*grpc.ClientConn, 100)
	began := time.Now()
	for i := range conns {
		conns[i] = dial(t, b, "dns:///svc.test.:"+port, "round_robin")
		conns[i].Connect()
	}
	for _, conn := range conns {
		_, err := call(t, conn)
		require.NoError(t, err)
	}
	eventually(t, "there are no lookups", func() bool { return ns.Asked("svc.test. A") >= 6 })
	// A package that stalls asks less. The first interval may be half of one.
	n, most := ns.Asked("svc.test. A"), int(time.Since(began)/(interval*9/10))+3
	t.Logf("%d lookups in %v", n, time.Since(began))
	require.LessOrEqual(t, n, most)
	for _, conn := range conns {
		require.NoError(t, conn.Close())
	}
	// The last channel ends the lookups, but for one that was under way.
	n = ns.Asked("svc.test. A")
	time.Sleep(3 * interval)
	require.LessOrEqual(t, ns.Asked("svc.test. A"), n+1)
}

// SRV records have names and ports. Backends come and go with them; a backup is used when
// nothing better is left.
func TestSRV(t *testing.T) {
	ns := nameserver.Start(t, "")
	port, all := startBackends(t, "127.0.0.11", "127.0.0.12", "127.0.0.13", "127.0.0.14")
	srv := func(priority, n int) string { return fmt.Sprintf("30 %d 10 %s pod-%d.svc.test.", priority, port, n) }
	for i := range 3 {
		ns.Set(t, fmt.Sprintf("pod-%d.svc.test. A", i), "30 "+all[i].ip)
	}
	ns.Set(t, "_grpc._tcp.svc.test. SRV", srv(10, 0), srv(10, 1), srv(20, 2))
	conn := dial(t, newBuilder(t, dns.Config{Server: ns.Addr, MassRemovalDelay: interval}), "dns:///_grpc._tcp.svc.test.", "quorate_round_robin")
	until(t, conn, all, 2)
	ns.Set(t, "_grpc._tcp.svc.test. SRV", srv(10, 0), srv(10, 1), srv(10, 2))
	until(t, conn, all, 3)
	for _, b := range all[:3] {
		assert.Equal(t, int64(1), b.accepted.Load(), "connections of %s", b.ip)
	}
	ns.Set(t, "_grpc._tcp.svc.test. SRV", srv(10, 7), srv(20, 0)) // there is no pod-7
	until(t, conn, all, 1)

	// Records of a plain name, and a priority of which no backend works: nothing listens on pod-9.
	ns.Set(t, "pod-9.svc.test. A", "30 127.0.0.19")
	ns.Set(t, "svc.test. SRV", srv(10, 9), srv(20, 0), srv(30, 1))
	plain := dial(t, newBuilder(t, dns.Config{Server: ns.Addr, Backups: true}), "dns:///svc.test.?srv", "quorate_round_robin")
	until(t, plain, all, 1)
}

// A backend with an IPv4 and an IPv6 address is connected to once, and works if only one of
// them does.
func TestDualStack(t *testing.T) {
	ns := nameserver.Start(t, "")
	port, all := startBackends(t, "127.0.0.11", "127.0.0.12")
	ns.Set(t, "_grpc._tcp.svc.test. SRV", "30 0 0 "+port+" pod-0.svc.test.", "30 0 0 "+port+" pod-1.svc.test.")
	for i, b := range all {
		ns.Set(t, fmt.Sprintf("pod-%d.svc.test. A", i), "30 "+b.ip)
		ns.Set(t, fmt.Sprintf("pod-%d.svc.test. AAAA", i), fmt.Sprintf("30 ::%d", i+1)) // nothing listens there
	}
	b := newBuilder(t, dns.Config{Server: ns.Addr})
	for _, policy := range policies {
		until(t, dial(t, b, "dns:///_grpc._tcp.svc.test.", policy), all, 2)
	}
	ns.Set(t, "one.test. A", "30 "+all[0].ip)
	ns.Set(t, "one.test. AAAA", "30 ::1")
	until(t, dial(t, b, "dns:///one.test.:"+port, "round_robin"), all, 1)

	ns.Set(t, "many.test. A", addresses(all, 30, 2)...)
	ns.Set(t, "many.test. AAAA", "30 ::1", "30 ::2")
	four := newBuilder(t, dns.Config{Server: ns.Addr, Family: dns.FamilyIPv4})
	until(t, dial(t, four, "dns:///many.test.:"+port, "round_robin"), all, 2)
	for _, b := range all {
		assert.LessOrEqual(t, b.accepted.Load(), int64(4), "one connection for each channel")
	}
}

// A list that is too long for a packet comes over TCP.
func TestLongList(t *testing.T) {
	ns := nameserver.Start(t, "")
	port, all := startBackends(t, "127.0.0.11")
	records := []string{"30 " + all[0].ip}
	for i := range 250 {
		records = append(records, fmt.Sprintf("30 127.0.1.%d", i)) // nothing listens there
	}
	ns.Set(t, "svc.test. A", records...)
	conn := dial(t, newBuilder(t, dns.Config{Server: ns.Addr}), "dns:///svc.test.:"+port, "round_robin")
	until(t, conn, all, 1)
	require.Greater(t, ns.Asked("svc.test. A"), 1, "once over UDP, once over TCP")
}

// A TTL that is shorter than the interval is kept to.
func TestTTL(t *testing.T) {
	ns := nameserver.Start(t, "")
	port, all := startBackends(t, "127.0.0.11", "127.0.0.12")
	ns.Set(t, "svc.test. A", addresses(all, 1, 1)...)
	conn := dial(t, newBuilder(t, dns.Config{Server: ns.Addr, Interval: time.Hour}), "dns:///svc.test.:"+port, "round_robin")
	until(t, conn, all, 1)
	ns.Set(t, "svc.test. A", addresses(all, 3600, 2)...)
	until(t, conn, all, 2)
}

// A lost connection causes a lookup at once, whatever the interval.
func TestLostConnection(t *testing.T) {
	ns := nameserver.Start(t, "")
	port, all := startBackends(t, "127.0.0.11", "127.0.0.12")
	ns.Set(t, "svc.test. A", "3600 127.0.0.13", "3600 "+all[0].ip) // no server listens on the first
	conn := dial(t, newBuilder(t, dns.Config{Server: ns.Addr, Interval: time.Hour}), "dns:///svc.test.:"+port, "round_robin")
	until(t, conn, all, 1)
	ns.Set(t, "svc.test. A", addresses(all, 3600, 2)...)
	until(t, conn, all, 2)
}

// A channel that went idle causes no lookups, and works when it wakes up.
func TestIdle(t *testing.T) {
	ns := nameserver.Start(t, "")
	port, all := startBackends(t, "127.0.0.11", "127.0.0.12")
	ns.Set(t, "svc.test. A", addresses(all, 30, 1)...)
	conn := dial(t, newBuilder(t, dns.Config{Server: ns.Addr}), "dns:///svc.test.:"+port, "quorate_round_robin",
		grpc.WithIdleTimeout(time.Second))
	until(t, conn, all, 1)
	for range 2 {
		eventually(t, "it does not go idle", func() bool { return conn.GetState() == connectivity.Idle })
		eventually(t, "an idle channel causes lookups", func() bool {
			n := ns.Asked("svc.test. A")
			time.Sleep(3 * interval)
			return ns.Asked("svc.test. A") == n
		})
		ns.Set(t, "svc.test. A", addresses(all, 30, 2)...)
		until(t, conn, all, 2)
	}
}
