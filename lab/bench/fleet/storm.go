package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/quorate/quorate/internal/pause"
	"github.com/quorate/quorate/lab"
	"github.com/quorate/quorate/lab/internal/fatal"
)

const (
	// countEvery is the time between two counts of connects, and readEvery that between two of RPCs: a member
	// computes for some 10 ms to show its metrics.
	countEvery = 100 * time.Millisecond
	readEvery  = 500 * time.Millisecond
	// returnTimeout bounds the time until all clients are served again.
	returnTimeout = 2 * time.Minute
	// afterReturn is how long RPCs are counted after all clients have been served.
	afterReturn = 5 * time.Second
)

// afterOutage says, in the report of clients without an answer, when that was.
const afterOutage = "after the outage"

// storm kills all members, so that the kernel refuses connections, and restarts them.
func storm(ctx context.Context, r *rig, length time.Duration) []row {
	before := r.fleet.state(ctx)
	connects := follow(ctx, fatal.OK(failedConnects(ctx)), countEvery, failedConnects)
	defer connects.stop()
	fatal.If(r.everyMember((*lab.Member).Kill))
	fatal.If(pause.For(ctx, length))
	connects.stop()
	down := r.fleet.mark(ctx)
	restarted := time.Now()
	var received [members]float64 // as of when the member was read last
	rpcs := follow(ctx, 0, readEvery, func(ctx context.Context) (sum float64, _ error) {
		for i, m := range r.cluster.Members() {
			if counted, err := read(ctx, m); err == nil {
				received[i] = counted.rpcs
			}
			sum += received[i]
		}
		return sum, nil
	})
	defer rpcs.stop()
	var served time.Duration
	work, working := errgroup.WithContext(ctx)
	work.Go(func() error { return r.everyMember(func(m *lab.Member) error { return m.Restart(working) }) })
	work.Go(func() error {
		return fatal.Catch(func() { served = r.allServed(working, restarted, returnTimeout, afterOutage) })
	})
	fatal.If(work.Wait())
	fatal.If(pause.For(ctx, afterReturn))
	rpcs.stop()
	return []row{
		{"connects that failed", "", connects.total()},
		{"  in the busiest second", "", connects.busiest()},
		{"CPU of the clients while the members are down, of one core", percent, 100 * (down.CPU - before.CPU).Seconds() / length.Seconds()},
		{"all clients served after the start of the members", seconds, served.Seconds()},
		{"RPCs received in the busiest second of the return", "", rpcs.busiest()},
	}
}

// badCertificates ends all connections, and leads new ones to a server with an
// untrusted certificate.
func badCertificates(ctx context.Context, r *rig, length time.Duration) []row {
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
	targets := make([]string, 0, members)
	for _, l := range r.links() {
		targets = append(targets, l.Target())
		l.SetTarget(server.Listener.Addr().String())
		l.Break()
	}
	err := pause.For(ctx, length)
	total := handshakes.Load()
	for i, l := range r.links() {
		l.SetTarget(targets[i])
	}
	fatal.If(err)
	return []row{{"TLS handshakes", "", float64(total)}}
}

// everyMember does something to all members at once.
func (r *rig) everyMember(do func(*lab.Member) error) error {
	var work errgroup.Group
	for _, m := range r.cluster.Members() {
		work.Go(func() error { return do(m) })
	}
	return work.Wait()
}

// failedConnects returns how many connects have failed in the network namespace.
func failedConnects(context.Context) (float64, error) {
	const counters = "/proc/net/snmp"
	text, err := os.ReadFile(counters)
	if err != nil {
		return 0, err
	}
	var names []string
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		switch {
		case fields[0] != "Tcp:":
		case names == nil:
			names = fields
		default:
			if i := slices.Index(names, "AttemptFails"); i >= 0 && i < len(fields) {
				return strconv.ParseFloat(fields[i], 64)
			}
		}
	}
	return 0, errors.New(counters + ": no AttemptFails")
}

// series has the readings of a count.
type series struct {
	at     []time.Time
	values []float64
	end    context.CancelFunc
	done   chan struct{}
}

// follow reads a count at intervals until it is stopped. known is its first value.
func follow(ctx context.Context, known float64, every time.Duration, read func(context.Context) (float64, error)) *series {
	ctx, end := context.WithCancel(ctx)
	s := &series{at: []time.Time{time.Now()}, values: []float64{known}, end: end, done: make(chan struct{})}
	go func() {
		defer close(s.done)
		for pause.For(ctx, every) == nil {
			if v, err := read(ctx); err == nil { // a failed reading loses nothing: the next one includes it
				s.at, s.values = append(s.at, time.Now()), append(s.values, v)
			}
		}
	}()
	return s
}

// stop ends the reading. A second stop has no effect.
func (s *series) stop() {
	s.end()
	<-s.done
}

// total returns by how much the count has grown.
func (s *series) total() float64 { return s.values[len(s.values)-1] - s.values[0] }

// busiest returns the highest growth of the count per second. It compares readings that are a little more than a second apart, or
// much more if the members were too busy to answer.
func (s *series) busiest() (most float64) {
	for i, from := range s.at {
		if n := slices.IndexFunc(s.at, func(at time.Time) bool { return at.Sub(from) >= time.Second }); n >= 0 {
			most = max(most, (s.values[n]-s.values[i])/s.at[n].Sub(from).Seconds())
		}
	}
	return most
}

// swallowed lets the kernel lose all packets between clients and members, and then carry them again. It
// needs a network namespace in which iptables may be used.
func swallowed(ctx context.Context, r *rig, length time.Duration) []row {
	ports := make([]string, 0, members)
	for _, m := range r.cluster.Members() {
		_, address, _ := strings.Cut(m.DirectEndpoint(), "://")
		_, port, err := net.SplitHostPort(address)
		fatal.If(err)
		ports = append(ports, port)
	}
	fatal.If(dropping(ctx, "--append", ports))
	err := pause.For(ctx, length)
	if carried := dropping(context.WithoutCancel(ctx), "--delete", ports); err == nil {
		err = carried
	}
	fatal.If(err)
	r.fleet.mark(ctx)
	served := r.allServed(ctx, time.Now(), returnTimeout, afterOutage)
	return []row{{"all clients served after the network carries again", seconds, served.Seconds()}}
}

// dropping appends or deletes the rule that drops what is sent to or from the ports.
func dropping(ctx context.Context, command string, ports []string) error {
	rule := []string{"--wait", command, "INPUT", "--protocol", "tcp", "--match", "multiport", "--ports", strings.Join(ports, ","), "--jump", "DROP"}
	out, err := exec.CommandContext(ctx, "iptables", rule...).CombinedOutput() //nolint:gosec // the ports are numbers
	if err != nil {
		return fmt.Errorf("iptables: %w: %s", err, strings.TrimSpace(string(out)))
	}
	return nil
}
