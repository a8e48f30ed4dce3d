package dns

import (
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/balancer"
	_ "github.com/quorate/quorate/balancer/policies"
	"github.com/quorate/quorate/internal/grpctest"
)

const srvName = "_grpc._tcp.svc"

func srvRecord(target string, port, priority, weight uint16) *net.SRV {
	return &net.SRV{Target: target, Port: port, Priority: priority, Weight: weight}
}

// Each target is one backend with all its addresses; the best priority that has any is used.
func TestSRV(t *testing.T) {
	scripted(t, func(t *testing.T, s *script) {
		s.hasSRV(srvName,
			srvRecord("B.svc.", 2, 10, 30), srvRecord("a.svc.", 1, 10, 60), srvRecord("a.svc.", 1, 10, 60), // one twice
			srvRecord("a.svc.", 1, 10, 10), // and once more with another weight
			srvRecord("gone.svc.", 1, 0, 1), srvRecord("backup.svc.", 9, 20, 0))
		s.has("a.svc.", "2001:db8::1", "10.0.0.1")
		s.has("b.svc.", "10.0.0.2", "10.0.0.3")
		s.has("backup.svc.", "10.0.0.9")
		s.fails("gone.svc.", errNoSuchHost)
		cc := follow(t, newBuilder(t, Config{Resolver: s}), "dns:///"+srvName)
		everything := follow(t, newBuilder(t, Config{Resolver: s, Backups: true, Family: FamilyIPv4}), "dns:///"+srvName)
		cc.requireLists(t, "10.0.0.1:1,[2001:db8::1]:1 10.0.0.2:2,10.0.0.3:2")
		cc.requireErrors(t)
		require.EqualValues(t, 10, balancer.PriorityOf(cc.endpoints()[0]))
		require.EqualValues(t, 70, balancer.WeightOf(cc.endpoints()[0]))
		require.EqualValues(t, 30, balancer.WeightOf(cc.endpoints()[1]))
		require.Len(t, s.times("a.svc."), 2, "once per builder")

		everything.requireLists(t, "10.0.0.1:1 10.0.0.2:2,10.0.0.3:2 10.0.0.9:9")

		// The addresses of a target whose lookup fails stay; those of one that does not exist are
		// removed.
		s.fails("a.svc.", errServerFailure)
		s.fails("b.svc.", errNoSuchHost)
		time.Sleep(5 * time.Second)
		const all, one = "10.0.0.1:1,[2001:db8::1]:1 10.0.0.2:2,10.0.0.3:2", "10.0.0.1:1,[2001:db8::1]:1"
		cc.requireLists(t, all, one)

		// A changed weight is published.
		s.hasSRV(srvName, srvRecord("a.svc.", 1, 10, 71))
		time.Sleep(5 * time.Second)
		cc.requireLists(t, all, one, one)

		// No backend of the best priority is left.
		time.Sleep(DefaultMassRemovalDelay)
		s.hasSRV(srvName, srvRecord("b.svc.", 2, 10, 30), srvRecord("backup.svc.", 9, 20, 0))
		time.Sleep(5 * time.Second)
		cc.requireLists(t, all, one, one, "10.0.0.9:9")
		cc.requireErrors(t)
	})
}

func TestSRVFaults(t *testing.T) {
	for _, c := range []struct {
		name    string
		prepare func(s *script)
		want    string
	}{
		{"no records", func(s *script) { s.fails(srvName, errNoSuchHost) }, `dns: "_grpc._tcp.svc" has no SRV records: no such host`},
		{"no service", func(s *script) { s.hasSRV(srvName, srvRecord(".", 0, 0, 0)) }, `dns: "_grpc._tcp.svc" has no SRV records: no usable SRV records`},
		{"failure", func(s *script) { s.fails(srvName, errServerFailure) }, `dns: looking up the SRV records of "_grpc._tcp.svc": server misbehaving`},
		{"targets gone", func(s *script) {
			s.hasSRV(srvName, srvRecord("a.svc.", 1, 0, 0))
			s.fails("a.svc.", errNoSuchHost)
		}, `dns: "_grpc._tcp.svc" has no SRV records: "a.svc.": no such host`},
		{"a failure takes precedence over a missing target", func(s *script) {
			s.hasSRV(srvName, srvRecord("a.svc.", 1, 0, 0), srvRecord("b.svc.", 1, 0, 0))
			s.fails("a.svc.", errNoSuchHost)
			s.fails("b.svc.", errServerFailure)
		}, `dns: looking up the SRV records of "_grpc._tcp.svc": "b.svc.": server misbehaving`},
	} {
		t.Run(c.name, func(t *testing.T) {
			scripted(t, func(t *testing.T, s *script) {
				c.prepare(s)
				cc := follow(t, newBuilder(t, Config{Resolver: s}), "dns:///"+srvName)
				synctest.Wait()
				cc.requireLists(t)
				cc.requireErrors(t, c.want)
			})
		})
	}
}

// Targets are looked up eight at a time, and all of them within one timeout. If that is too short, the list is incomplete: this
// is reported, the others follow soon, and then each target has its turn.
func TestManyTargets(t *testing.T) {
	scripted(t, func(t *testing.T, s *script) {
		var records []*net.SRV
		for i := range 80 {
			name := string(rune('a'+i/10)) + string(rune('a'+i%10)) + ".svc."
			records = append(records, srvRecord(name, 1, 0, 0))
			s.has(name, "10.0.0.1")
		}
		s.hasSRV(srvName, records...)
		s.takes(100 * time.Millisecond)
		cc := follow(t, newBuilder(t, Config{Resolver: s}), "dns:///"+srvName)
		time.Sleep(1099 * time.Millisecond)
		cc.requireLists(t)
		time.Sleep(time.Millisecond)
		synctest.Wait()
		require.Len(t, cc.endpoints(), 80, "100 ms for the records, and ten times for their targets")
		cc.requireErrors(t)

		s.takes(900 * time.Millisecond)
		slow := follow(t, newBuilder(t, Config{Resolver: s, Interval: time.Minute, MinInterval: time.Second}), "dns:///"+srvName)
		time.Sleep(6 * time.Second)
		require.Len(t, slow.endpoints(), 40)
		_, errs := slow.updates()
		require.Regexp(t, `^dns: looking up the SRV records of "_grpc._tcp.svc": "...svc.": no answer in time$`, strings.Join(errs, "\n"))
		time.Sleep(7 * time.Second)
		require.Len(t, slow.endpoints(), 80)
		for _, r := range records {
			s.has(r.Target, "10.0.0.2")
		}
		time.Sleep(time.Hour)
		for _, e := range slow.endpoints() {
			require.Equal(t, "10.0.0.2:1", e.Addresses[0].Addr)
		}
	})
}

// Calls fail with the reason, with every policy. The examples have calls that succeed.
func TestCallsFailWithTheReason(t *testing.T) {
	s := newScript()
	s.fails("failing", errServerFailure)
	s.fails("none", errNoSuchHost)
	b := newBuilder(t, Config{Resolver: s})
	for _, policy := range []string{"pick_first", "round_robin", "quorate_round_robin", "quorate_p2c"} {
		for target, want := range map[string]string{
			"dns:///failing:80":      `dns: looking up the addresses of "failing": server misbehaving`,
			"dns:///none:80":         `dns: "none" has no addresses: no such host`,
			"dns:///_a._tcp.none:80": `dns: bad target "dns:///_a._tcp.none:80": "_a._tcp.none" is the name of SRV records, which have the ports; remove ":80"`,
		} {
			t.Run(policy+" "+target, func(t *testing.T) {
				conn, err := grpc.NewClient(target, grpc.WithResolvers(b), grpc.WithNoProxy(), grpc.WithTransportCredentials(insecure.NewCredentials()),
					grpc.WithDefaultServiceConfig(`{"loadBalancingConfig":[{"`+policy+`":{}}]}`))
				require.NoError(t, err)
				defer conn.Close()
				_, err = grpctest.Ask(grpctest.Within(t, testTimeout), conn)
				require.Equal(t, codes.Unavailable, status.Code(err), err)
				require.ErrorContains(t, err, want)
			})
		}
	}
}
