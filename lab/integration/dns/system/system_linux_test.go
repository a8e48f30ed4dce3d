//go:build experiment

package system_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/internal/grpctest"
	"github.com/quorate/quorate/lab/internal/nameserver"
	"github.com/quorate/quorate/resolver/dns"
)

const (
	interval = 100 * time.Millisecond

	inCluster = "search shop.svc.cluster.test svc.cluster.test cluster.test corp.test"
	billing   = "billing.shop.svc.cluster.test"
)

func open(t *testing.T, cfg dns.Config, target string) *grpctest.Channel {
	t.Helper()
	b, err := dns.NewBuilder(cfg)
	require.NoError(t, err)
	return grpctest.Follow(t, b, target)
}

// start runs DNS servers on 127.0.1.1, 127.0.1.2 and so on.
func start(t *testing.T, behaviours ...nameserver.Behaviour) (all []*nameserver.Server, lines []string) {
	t.Helper()
	for i, m := range behaviours {
		ip := "127.0.1." + string(rune('1'+i))
		ns := nameserver.New(ip + ":53")
		t.Cleanup(func() { require.NoError(t, ns.Close()) })
		ns.SetBehaviour(m, ".")
		ns.Set(billing+". A", "1 10.0.0.1")
		ns.Set(billing + ". AAAA")
		all, lines = append(all, ns), append(lines, "nameserver "+ip)
	}
	return all, lines
}

// Servers before the one that works are dead, refuse to answer or say something else. With the
// timeouts that resolv.conf(5) has by default, and search domains as in a pod of Kubernetes, of which
// each is asked of the first server first, Go's own resolver needs 25 s. The second lookup does not
// wait for them any more.
func TestFirstServersDoNotWork(t *testing.T) {
	for _, test := range []struct {
		name       string
		behaviours []nameserver.Behaviour
	}{
		{"dead", []nameserver.Behaviour{nameserver.Silent, nameserver.WellBehaved}},
		{"failing", []nameserver.Behaviour{nameserver.Failing, nameserver.WellBehaved}},
		{"refusing", []nameserver.Behaviour{nameserver.Refusing, nameserver.WellBehaved}},
		{"another name", []nameserver.Behaviour{nameserver.Foreign, nameserver.WellBehaved}},
		{"two dead", []nameserver.Behaviour{nameserver.Silent, nameserver.Silent, nameserver.WellBehaved}},
	} {
		t.Run(test.name, func(t *testing.T) {
			behaviours := test.behaviours
			all, lines := start(t, behaviours...)
			use(t, append(lines, inCluster, "options ndots:5")...)
			began := time.Now()
			c := open(t, dns.Config{Interval: interval, MinInterval: interval}, "dns:///"+billing+":80")
			c.AwaitAddresses(t, "10.0.0.1:80")
			t.Logf("first list after %v", time.Since(began))
			require.Less(t, time.Since(began), 15*time.Second)
			_, errs := c.Received()
			require.Empty(t, errs)

			last := all[len(all)-1]
			last.Set(billing+". A", "1 10.0.0.2")
			began = time.Now()
			c.AwaitAddresses(t, "10.0.0.2:80")
			t.Logf("a change after %v", time.Since(began))
			if behaviours[0] != nameserver.Silent {
				return
			}
			// The one that works dies, and a dead one is back.
			all[0].Set(billing+". A", "1 10.0.0.3")
			all[0].SetBehaviour(nameserver.WellBehaved, ".")
			last.SetBehaviour(nameserver.Silent, ".")
			began = time.Now()
			c.AwaitAddresses(t, "10.0.0.3:80")
			t.Logf("another server's list after %v", time.Since(began))
		})
	}
}

// A search domain that is not answered for does not matter to a name that exists, unless the name was
// found there before.
func TestSearchDomainsFail(t *testing.T) {
	for name, m := range map[string]nameserver.Behaviour{"failing": nameserver.Failing, "refusing": nameserver.Refusing, "silent": nameserver.Silent} {
		t.Run(name, func(t *testing.T) {
			all, lines := start(t, nameserver.WellBehaved)
			ns := all[0]
			use(t, append(lines, inCluster, "options ndots:5 timeout:1 attempts:1")...)
			cfg := dns.Config{Interval: interval, MinInterval: interval, MassRemovalDelay: time.Second}
			ns.SetBehaviour(m, "corp.test.")
			open(t, cfg, "dns:///"+billing+":80").AwaitAddresses(t, "10.0.0.1:80")

			// It is unknown whether there is such a name.
			none := open(t, cfg, "dns:///none.cluster.test:80")
			none.AwaitError(t, 0, `"none.cluster.test.corp.test.": `)

			// The name is another one's in the next domain.
			ns.Set("billing.corp.test. A", "1 10.0.0.9")
			ns.SetBehaviour(nameserver.WellBehaved, "corp.test.")
			c := open(t, cfg, "dns:///billing.shop:80")
			ns.Set("billing.shop.corp.test. A", "1 10.0.0.9")
			c.AwaitAddresses(t, "10.0.0.1:80")
			ns.SetBehaviour(m, "cluster.test.")
			c.AwaitError(t, 0, `"`+billing+`.": `)
			lists, _ := c.Counts()
			require.Equal(t, 1, lists)
			// It is no more in the first one.
			ns.SetBehaviour(nameserver.WellBehaved, "cluster.test.")
			ns.Set(billing + ". A")
			c.AwaitAddresses(t, "10.0.0.9:80")
		})
	}
}

// A name with as many dots as ndots says is asked for as it is first. The first configuration is that of the test before,
// and the second that of the next, so that use need not wait.
func TestNdots(t *testing.T) {
	all, lines := start(t, nameserver.WellBehaved)
	for _, c := range []struct {
		options string
		queried bool
	}{{"options ndots:5 timeout:1 attempts:1", true}, {"options ndots:4", false}} {
		use(t, append(lines, inCluster, c.options)...)
		before := all[0].Asked(billing + ".cluster.test. A")
		open(t, dns.Config{Interval: time.Hour}, "dns:///"+billing+":80").AwaitAddresses(t, "10.0.0.1:80")
		assert.Equal(t, c.queried, all[0].Asked(billing+".cluster.test. A") > before, c.options) // a busy machine may have it asked again
	}
}

// Other servers and search domains are used as soon as package net sees the new file.
func TestResolvConfChanges(t *testing.T) {
	all, lines := start(t, nameserver.WellBehaved, nameserver.WellBehaved)
	all[1].Set("billing.shop. A", "1 10.0.0.2")
	use(t, lines[0], inCluster, "options ndots:4")
	c := open(t, dns.Config{Interval: interval, MinInterval: interval, Timeout: 3 * time.Second}, "dns:///billing.shop:80")
	c.AwaitAddresses(t, "10.0.0.1:80")
	all[0].SetBehaviour(nameserver.Silent, ".")
	configure(t, lines[1])
	began := time.Now()
	c.AwaitAddresses(t, "10.0.0.2:80")
	t.Logf("after %v", time.Since(began))
}
