package bench

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/quorate/quorate/internal/fatal"
	"github.com/quorate/quorate/internal/pause"
	"github.com/quorate/quorate/lab"
	"github.com/quorate/quorate/lab/internal/scrape"
	"github.com/quorate/quorate/lab/link"
)

var (
	fleetClients   = flag.Int("clients", 100, "clients of each kind of a fleet")
	fleetProcesses = flag.Int("processes", 0, "processes that they are spread over (default one for each client)")
	phaseLength    = flag.Duration("length", 30*time.Second, "length of the phases idle to no-quorum; the others have their own")
)

// phase is a condition of a cluster in which a fleet is measured.
type phase struct {
	name     string
	deadline time.Duration // of the gets, 0 for none
	// direct leads clients to the members past the links, and tls makes members serve with TLS.
	direct, tls bool
	run         func(*fleet) figures
}

// outage is the length of a phase in which the clients reach no member.
const outage = 12 * time.Second

var phases = []phase{
	{name: "idle", run: usual(func(*fleet) {})},
	{name: "light", deadline: 2 * time.Second, run: usual(func(*fleet) {})},
	{name: "events", direct: true, run: notify},
	{name: "frozen", deadline: 2 * time.Second, run: usual(func(f *fleet) { fatal.If(f.followers[0].Freeze()) })},
	{name: "overload", deadline: 200 * time.Millisecond, run: usual(slow)},
	{name: "no-quorum", deadline: 2 * time.Second, run: usual(killMajority)},
	{name: "storm", deadline: 2 * time.Second, direct: true, run: storm},
	{name: "badcert", deadline: 2 * time.Second, tls: true, run: badCertificates},
	{name: "swallow", deadline: 2 * time.Second, direct: true, run: swallow},
}

// BenchmarkFleet measures what many clients cost a cluster of three members. Each client has one watch, keeps one lease alive and,
// except in the phases idle and events, makes one linearizable get a second. The counts come from the members' own /metrics.
// Connections are counted where the lab's links accept them, and in storm, where the kernel refuses them, by the kernel: all of
// the network namespace, so give it one of its own ("unshare -n").
func BenchmarkFleet(b *testing.B) {
	for _, p := range phases {
		b.Run(p.name, func(b *testing.B) {
			compare(b, p.measure)
		})
	}
}

// measure starts a cluster and a fleet, waits until each client is served, and measures.
func (p phase) measure(ctx context.Context, k kind) figures {
	cluster := fatal.OK(lab.Start(ctx, lab.Config{TLS: p.tls}))
	defer cluster.Close()
	endpoints := cluster.Endpoints()
	if p.direct {
		endpoints = cluster.DirectEndpoints()
	}
	leader := fatal.OK(cluster.Leader(ctx))
	f := &fleet{Context: ctx, cluster: cluster, leader: leader, followers: cluster.Others(leader)}
	defer f.close()
	f.start(fleetJob{Client: k.name, Endpoints: endpoints, Files: cluster.TLSFiles(), Deadline: p.deadline})
	if p.deadline > 0 {
		f.awaitServed(time.Now())
	}
	fatal.If(pause.For(ctx, 3*time.Second))
	return p.run(f)
}

// usual brings the cluster into a condition and measures for a time.
func usual(begin func(*fleet)) func(*fleet) figures {
	return func(f *fleet) figures {
		opened, began, read, before := f.reached(), time.Now(), f.counted(), f.ask(false)
		begin(f)
		fatal.If(pause.For(f, *phaseLength))
		after, seconds := f.ask(false), time.Since(began).Seconds()
		grown := f.grown(read)
		answered, failed := float64(after.Answered-before.Answered), float64(after.Failed-before.Failed)
		return figures{
			"RPCs/client/s": grown.rpcs / float64(*fleetClients) / seconds,
			"members-cpu-%": 100 * grown.cpu / seconds,
			"connections":   f.reached() - opened,
			"answered-%":    100 * answered / max(answered+failed, 1),
		}
	}
}

// notify puts a key that all clients watch, 20 times a second.
func notify(f *fleet) figures {
	client := fatal.OK(openTheirs(config{endpoints: f.cluster.DirectEndpoints()}))
	defer client.Close()
	fatal.OK(client.put(f, "fleet/key"))
	read, before, puts := f.counted(), f.ask(false), 0
	for end := time.Now().Add(*phaseLength); time.Now().Before(end); puts++ {
		fatal.OK(client.put(f, "fleet/key"))
		fatal.If(pause.For(f, 50*time.Millisecond))
	}
	after, events := f.ask(false), float64(puts**fleetClients)
	return figures{
		"members-µs/event": 1e6 * f.grown(read).cpu / events,
		"clients-µs/event": 1e6 * (after.CPU - before.CPU).Seconds() / events,
	}
}

// slow makes each member answer later than the deadline of the gets.
func slow(f *fleet) {
	for _, l := range f.links() {
		l.Delay(link.Both, 500*time.Millisecond)
	}
}

func killMajority(f *fleet) {
	fatal.If(f.followers[0].Kill())
	fatal.If(f.leader.Kill())
}

// storm kills all members, so that the kernel refuses connections, and restarts them.
func storm(f *fleet) figures {
	before, refused := f.ask(false), growth(f, failedConnects)
	for _, m := range f.cluster.Members() {
		fatal.If(m.Kill())
	}
	fatal.If(pause.For(f, outage))
	connects, mostConnects := refused()
	down, restarted := f.ask(true), time.Now()
	var received [lab.DefaultMembers]float64 // as of when the member was read last
	returned := growth(f, func(ctx context.Context) (sum float64, _ error) {
		for i, m := range f.cluster.Members() {
			_ = fatal.Catch(func() { received[i] = readMember(ctx, m).rpcs })
			sum += received[i]
		}
		return sum, nil
	})
	work, working := errgroup.WithContext(f)
	for _, m := range f.cluster.Members() {
		work.Go(func() error { return m.Restart(working) })
	}
	served := f.awaitServed(restarted)
	fatal.If(work.Wait())
	fatal.If(pause.For(f, 5*time.Second))
	_, mostRPCs := returned()
	return figures{
		"connects": connects, "connects/s-most": mostConnects, "clients-cpu-%": 100 * (down.CPU - before.CPU).Seconds() / outage.Seconds(),
		"served-s": served, "RPCs/s-most": mostRPCs,
	}
}

// growth reads a count each second until end is called, which returns how much the count has grown, and how much in a second at
// most.
func growth(ctx context.Context, read func(context.Context) (float64, error)) (end func() (total, most float64)) {
	ctx, stop := context.WithCancel(ctx)
	done := make(chan struct{})
	var total, most float64
	known, at := fatal.OK(read(ctx)), time.Now()
	go func() {
		defer close(done)
		for pause.For(ctx, time.Second) == nil {
			n, err := read(ctx)
			if err != nil {
				continue // the next reading includes it
			}
			total += n - known
			most = max(most, (n-known)/time.Since(at).Seconds())
			known, at = n, time.Now()
		}
	}()
	return func() (float64, float64) {
		stop()
		<-done
		return total, most
	}
}

// failedConnects returns how many connects have failed in the network namespace.
func failedConnects(context.Context) (n float64, err error) {
	text, err := os.ReadFile("/proc/net/snmp")
	if err != nil {
		return 0, err
	}
	_, tcp, _ := strings.Cut(string(text), "\nTcp: ")
	names, values, _ := strings.Cut(tcp, "\nTcp: ")
	values, _, _ = strings.Cut(values, "\n")
	for i, name := range strings.Fields(names) {
		if name == "AttemptFails" {
			_, err = fmt.Sscan(strings.Fields(values)[i], &n)
		}
	}
	return n, err
}

// badCertificates ends all connections, and leads new ones to a server with an untrusted certificate.
func badCertificates(f *fleet) figures {
	var handshakes atomic.Int64
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.EnableHTTP2 = true
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			handshakes.Add(1)
		}
	}
	server.StartTLS()
	defer server.Close()
	for _, l := range f.links() {
		l.SetTarget(server.Listener.Addr().String())
		l.Break()
	}
	fatal.If(pause.For(f, outage))
	return figures{"handshakes": float64(handshakes.Load())}
}

// swallow lets the kernel lose all packets between clients and members, and then carry them again. It needs a network namespace
// in which iptables may be used.
func swallow(f *fleet) figures {
	var ports []string
	for _, m := range f.cluster.Members() {
		ports = append(ports, m.DirectEndpoint()[strings.LastIndex(m.DirectEndpoint(), ":")+1:])
	}
	drop := func(ctx context.Context, command string) error {
		rule := []string{"--wait", command, "INPUT", "--protocol", "tcp", "--match", "multiport", "--ports", strings.Join(ports, ","), "--jump", "DROP"}
		out, err := exec.CommandContext(ctx, "iptables", rule...).CombinedOutput()
		if err != nil {
			return fmt.Errorf("iptables: %w: %s", err, out)
		}
		return nil
	}
	fatal.If(drop(f, "--append"))
	err := pause.For(f, 10*time.Second)
	fatal.If(errors.Join(err, drop(context.WithoutCancel(f), "--delete")))
	f.ask(true)
	return figures{"served-s": f.awaitServed(time.Now())}
}

// fleet is the clients of one kind, and their cluster.
type fleet struct {
	context.Context // of one sample
	cluster         *lab.Cluster
	leader          *lab.Member // when the phase began
	followers       []*lab.Member
	processes       []*fleetProcess
}

func (f *fleet) links() (all []*link.Link) {
	for _, m := range f.cluster.Members() {
		all = append(all, f.cluster.ClientLink(m))
	}
	return all
}

// reached returns how many connections have reached a member over the links since the cluster started.
func (f *fleet) reached() (sum float64) {
	for _, l := range f.links() {
		stats := l.Stats()
		sum += float64(stats.Accepted) - float64(stats.Refused)
	}
	return sum
}

// awaitServed waits until each client has had an answer to a get since it was asked to forget, for two minutes at most. It
// returns the seconds from a time until then.
func (f *fleet) awaitServed(since time.Time) float64 {
	for f.ask(false).HaveAnswers < *fleetClients && time.Since(since) < 2*time.Minute {
		fatal.If(pause.For(f, 100*time.Millisecond))
	}
	return time.Since(since).Seconds()
}

// reading is what a member has counted since it started: the RPCs, unary and streams, and its CPU time in seconds.
type reading struct{ rpcs, cpu float64 }

func readMember(ctx context.Context, m *lab.Member) reading {
	metrics := scrape.Read(ctx, scrape.Client, m.DirectEndpoint())
	return reading{metrics.Sum("grpc_server_started_total"), metrics.Sum("process_cpu_seconds_total")}
}

// counted reads the members that run and are not frozen.
func (f *fleet) counted() map[*lab.Member]reading {
	all := make(map[*lab.Member]reading)
	for _, m := range f.cluster.Members() {
		if m.Alive() && !m.Frozen() {
			all[m] = readMember(f, m)
		}
	}
	return all
}

// grown returns what the members have counted since a reading.
func (f *fleet) grown(since map[*lab.Member]reading) (sum reading) {
	for m, r := range f.counted() {
		sum.rpcs += r.rpcs - since[m].rpcs
		sum.cpu += r.cpu - since[m].cpu
	}
	return sum
}
