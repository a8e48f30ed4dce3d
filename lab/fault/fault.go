// Package fault has the faults that the lab injects into a cluster, by name.
//
// [Fault.Inject] injects a fault. [Heal] repairs the cluster after any fault, even
// one that was injected in part.
package fault

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/quorate/quorate/internal/fatal"
	"github.com/quorate/quorate/internal/pause"
	"github.com/quorate/quorate/lab"
	"github.com/quorate/quorate/lab/internal/nameserver"
	"github.com/quorate/quorate/lab/internal/pace"
	"github.com/quorate/quorate/lab/link"
	"github.com/quorate/quorate/lab/robustness/client"
)

// defaultHold is how long a fault that is an activity goes on, unless the scene says otherwise.
const defaultHold = 5 * time.Second

// MinMembers is the smallest cluster that the faults are for: most of them take one member, and a
// majority must remain.
const MinMembers = 3

// Scene is where a fault happens.
type Scene struct {
	// Cluster is the cluster that the fault is injected into. All its members must run and be ready.
	Cluster *lab.Cluster
	// Rand chooses the member that it happens to.
	Rand *rand.Rand
	// Note is called with the summary of the fault, and a few words for the member that it happens to.
	Note func(text string)
	// Hold is how long a fault goes on if it is an activity rather than a state, such
	// as defragmentation. Default 5 s. Other faults last until the caller heals them.
	Hold time.Duration
	// Front is how clients reach the cluster, nil if by the members' endpoints.
	Front *Front
	// Join connects another client of the process, with a TLS configuration or with that of
	// the others. Nil for a scene that has other clients already.
	Join func(*tls.Config) (client.Connection, error)
}

// hold returns how long a fault that is an activity goes on.
func (s Scene) hold() time.Duration { return cmp.Or(s.Hold, defaultHold) }

// Fault is something that goes wrong.
type Fault struct {
	// Name by which it is chosen, in lower case with hyphens.
	Name string
	// Summary says in half a sentence what happens.
	Summary string
	// Held is how long it is held by default, 0 if the run decides.
	Held time.Duration
	// Site is the cluster that it happens to.
	Site Site

	storm  bool // it may be part of a storm
	inject injection
}

// injectTimeout bounds how long the injection of a fault may take, in addition to the time for which
// it is held; a rolling restart takes one to three seconds for each member, and on a busy machine
// twenty.
const injectTimeout = 3 * time.Minute

// Inject injects the fault and returns when it is in force. An error says what
// could not be done, by the end of ctx or within three minutes; part of the fault may then be in force, so Heal is still
// required.
func (f Fault) Inject(ctx context.Context, s Scene) error {
	ctx, cancel := context.WithTimeout(ctx, injectTimeout+s.hold())
	defer cancel()
	s.Note(f.Summary)
	if err := fatal.Catch(func() { f.inject(ctx, s) }); err != nil {
		return fmt.Errorf("inject %s: %w", f.Name, err)
	}
	return nil
}

// All returns every fault: those of [Default], and those that happen only when they are named.
func All() []Fault {
	return []Fault{
		{Name: "kill", Summary: "a follower is killed (SIGKILL) and restarted at the end", storm: true, inject: onFollower(kill)},
		{Name: "stop", Summary: "a follower is stopped (SIGSTOP): its connections stay, it answers nothing", storm: true, inject: onFollower(stop)},
		{Name: "blackhole", Summary: "the clients' link to a follower takes bytes and delivers none", storm: true, inject: onFollower(silence)},
		{Name: "partition", Summary: "a follower is cut off from the other members, clients still reach it", storm: true, inject: onFollower(isolate)},
		{Name: "slow", Summary: "everything a follower sends, to clients and members, arrives 200 ms later", storm: true, inject: onFollower(slow)},
		{Name: "leader-kill", Summary: "the leader is killed (SIGKILL) and restarted at the end", storm: true, inject: onLeader(kill)},
		{Name: "rolling-restart", Summary: "each member in turn is terminated gracefully and restarted", inject: rollingRestart},
		{Name: "defrag", Summary: "a follower is defragmented, over and over", storm: true, inject: onFollower(defrag)},
		{Name: "leader-stop", Summary: "the leader is stopped (SIGSTOP): its connections stay, it answers nothing", storm: true, inject: onLeader(stop)},
		{Name: "leader-blackhole", Summary: "the clients' link to the leader takes bytes and delivers none", storm: true, inject: onLeader(silence)},
		{Name: "leader-partition", Summary: "the leader is cut off from the other members, clients still reach it", storm: true, inject: onLeader(isolate)},
		{Name: "leader-move", Summary: "leadership moves to a follower", storm: true, inject: moveLeader},
		{Name: "majority-lost", Summary: "a majority is killed; one of them comes back after 3 s, the others at the end", storm: true, inject: majorityLost},
		{Name: "nat", Summary: "the flows of all clients are forgotten: they carry nothing more, new ones work", Held: 25 * time.Second, storm: true, inject: onAll(forget)},
		{
			Name: "nat-one", Summary: "the flows of one client to one member are forgotten, other clients of the process work with it",
			Held: 25 * time.Second, storm: true, inject: forgetOne,
		},
		{Name: "loss", Summary: "a fifth of the packets of a follower is lost", Held: 15 * time.Second, inject: onFollower(lose)},
		{Name: "move", Summary: "the names of all members lead to new addresses, the old ones are silent", Held: 25 * time.Second, Site: Named, inject: move},
		{
			Name: "vip", Summary: "one endpoint, a TCP proxy; the member behind it is stopped, new connections reach another",
			Held: 25 * time.Second, Site: OneEndpoint, inject: freezeBehind,
		},
		{Name: "flap", Summary: "a follower is stopped for 2 s and runs for 2 s, over and over", Held: 18 * time.Second, storm: true, inject: pauseRepeatedly(flapHalf, 2*flapHalf)},
		{Name: "two-frozen", Summary: "a majority of the members is stopped (SIGSTOP), the others answer serializable gets", Held: 10 * time.Second, inject: freezeMajority},
		{Name: "pause", Summary: "a follower pauses for 0.7 s every 3 s", Held: 13 * time.Second, inject: pauseRepeatedly(pauseLength, pauseEvery)},
		{Name: "transfer", Summary: "leadership is transferred once a second", Held: 12 * time.Second, inject: transfer},
		{Name: "second-frozen", Summary: "a follower is stopped, and a second one at the end (5 members)", Held: 2 * time.Minute, inject: freezeSecond},
		{
			Name: "expired", Summary: "20 clients of the process have an expired certificate, and a follower is stopped",
			Held: 15 * time.Second, Site: ClientCertificates, inject: freezeBesideExpired,
		},
	}
}

// Default returns the faults of a run that names none, in the order in which it
// injects them.
func Default() []Fault { return All()[:7] }

// ForSoaks returns the faults of a [Storm]: those that all clusters can have and that end quickly, and others that are
// harder or that leave nothing to measure. A rolling restart takes too much of a storm, because a member with open
// watches takes seven seconds to terminate; the fault terminate restarts one member instead.
func ForSoaks() []Fault {
	return append(
		slices.DeleteFunc(All(), func(f Fault) bool { return !f.storm }),
		Fault{Name: "terminate", Summary: "a member is terminated gracefully and restarted at the end", inject: terminateOne},
		Fault{Name: "no-quorum", Summary: "every member is cut off from the others", inject: onAll(isolate)},
		Fault{Name: "all-killed", Summary: "all members are killed (SIGKILL) and restarted at the end", inject: onAll(kill)},
		Fault{Name: "clients-cut", Summary: "the clients' links to all members are cut", inject: onClientLinks((*link.Link).Cut)},
		Fault{
			Name: "clients-delayed", Summary: "the clients' links to all members add 100 ms each way",
			inject: onClientLinks(func(l *link.Link) { l.Delay(link.Both, clientDelay) }),
		},
		Fault{
			Name: "clients-deaf", Summary: "the clients' links carry nothing to clients",
			inject: onClientLinks(func(l *link.Link) { l.Blackhole(link.Reverse) }),
		},
	)
}

// Names returns the names of faults.
func Names(faults []Fault) []string {
	names := make([]string, len(faults))
	for i, f := range faults {
		names[i] = f.Name
	}
	return names
}

// Parse returns the faults of the given names, in their order; those of [Default]
// for no names. A name may occur twice. The error for an unknown name lists the
// known ones.
func Parse(names []string) ([]Fault, error) {
	if len(names) == 0 {
		return Default(), nil
	}
	var faults []Fault
	for _, name := range names {
		i := slices.IndexFunc(All(), func(f Fault) bool { return f.Name == name })
		if i < 0 {
			return nil, fmt.Errorf("unknown fault %q: the faults are %s", name, strings.Join(Names(All()), ", "))
		}
		faults = append(faults, All()[i])
	}
	return faults, nil
}

const (
	// shortestHold and longestHold bound how long a fault is held.
	shortestHold, longestHold = 500 * time.Millisecond, 3 * time.Second
	// shortestCalm and longestCalm bound the time between two faults.
	shortestCalm, longestCalm = 300 * time.Millisecond, 1500 * time.Millisecond
	// shortestCut and longestCut bound the time between two cuts of connections.
	shortestCut, longestCut = 300 * time.Millisecond, 2500 * time.Millisecond
)

// Storm injects one random fault after another until ctx ends, and breaks random connections all the while. It returns
// when the cluster is healed.
//
// The faults are drawn from the scene's Rand and the connections from cuts, so that neither changes
// what the other draws. The scene's Hold is ignored. Storm counts each fault by its name, and how often all connections of clients
// to a member were reset apart from the faults.
//
// It notes and counts a fault that cannot be injected, and goes on; it ends if the
// cluster cannot be healed within a minute.
func Storm(ctx context.Context, scene Scene, cuts *rand.Rand, count func(what string)) error {
	scene.Hold = longestHold
	ctx, cancel := context.WithCancel(ctx)
	var cutting sync.WaitGroup
	cutting.Go(func() { breakConnections(ctx, scene.Cluster, cuts, count) })
	defer cutting.Wait()
	defer cancel()
	var upcoming []Fault // each comes once before any comes again
	for pause.For(ctx, pace.Between(scene.Rand, shortestCalm, longestCalm)) == nil {
		if len(upcoming) == 0 {
			upcoming = ForSoaks()
			scene.Rand.Shuffle(len(upcoming), func(i, j int) { upcoming[i], upcoming[j] = upcoming[j], upcoming[i] })
		}
		f := upcoming[0]
		upcoming = upcoming[1:]
		count(f.Name)
		if err := f.Inject(context.WithoutCancel(ctx), scene); err != nil { // what it did can be healed
			count("not injected")
			scene.Note(err.Error())
		}
		_ = pause.For(ctx, pace.Between(scene.Rand, shortestHold, longestHold)) // it is healed early when ctx ends
		if err := Heal(context.WithoutCancel(ctx), scene); err != nil {
			return err
		}
	}
	return nil
}

// breakConnections resets all connections of clients to a random member, now and
// then, until ctx ends.
func breakConnections(ctx context.Context, c *lab.Cluster, rng *rand.Rand, count func(what string)) {
	members := c.Members()
	for pause.For(ctx, pace.Between(rng, shortestCut, longestCut)) == nil {
		c.ClientLink(members[rng.IntN(len(members))]).Break()
		count("connections cut")
	}
}

// Site is the cluster that a fault happens to, and how clients reach it.
type Site uint8

// The sites of faults.
const (
	// Direct leads clients to the members' endpoints.
	Direct Site = iota
	// Named leads them to DNS names, one for each member. Linux only.
	Named
	// OneEndpoint leads them to the link of the first member, which may pass connections to another one.
	OneEndpoint
	// ClientCertificates is Direct with members that demand client certificates.
	ClientCertificates
)

// SiteOf returns the site of faults, and an error if they need several.
func SiteOf(faults []Fault) (Site, error) {
	for _, f := range faults {
		if f.Site != faults[0].Site {
			return 0, fmt.Errorf("the faults %s and %s need different clusters: name them in different runs", faults[0].Name, f.Name)
		}
	}
	if len(faults) == 0 {
		return Direct, nil
	}
	return faults[0].Site, nil
}

// Config returns the configuration of a cluster for the site.
func (s Site) Config(cfg lab.Config) lab.Config {
	if s == ClientCertificates {
		cfg.TLS, cfg.ClientCertAuth = true, true
	}
	return cfg
}

// Front is how clients reach a cluster.
type Front struct {
	// Endpoints of the clients.
	Endpoints []string

	behind int // OneEndpoint: the member that connections are passed to

	names  *nameserver.Server
	others []*link.Link // Named: the other addresses of the members
	moved  bool         // to them
}

// Open leads clients to a cluster. The front must be closed after its clients. A front of
// Named replaces the resolver of the process while it is open.
func (s Site) Open(c *lab.Cluster) (*Front, error) {
	f := &Front{Endpoints: c.Endpoints()}
	switch s {
	case Named:
		if err := fatal.Catch(func() { f.openNames(c) }); err != nil {
			return nil, errors.Join(fmt.Errorf("lead clients to the cluster: %w", err), f.Close())
		}
	case OneEndpoint:
		f.Endpoints = f.Endpoints[:1]
	case Direct, ClientCertificates:
	}
	return f, nil
}

// openNames gives each member a name, and a second address with the port of its link.
func (f *Front) openNames(c *lab.Cluster) {
	f.names = nameserver.New("")
	for i, m := range c.Members() {
		host, port, _ := net.SplitHostPort(c.ClientLink(m).Addr()) // an address has both
		f.others = append(f.others, fatal.OK(link.ListenAt("127.0.0.2:"+port, addressOf(m))))
		f.Endpoints[i] = "http://" + nameOf(m) + ":" + port
		f.names.Set(nameOf(m)+". A", "1 "+host)
	}
	server := f.names.Addr
	net.DefaultResolver.PreferGo = true
	net.DefaultResolver.Dial = func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, server)
	}
}

// addressOf returns where a member itself listens.
func addressOf(m *lab.Member) string { return strings.TrimPrefix(m.DirectEndpoint(), "http://") }

func nameOf(m *lab.Member) string { return m.Name() + ".quorate.test" }

// move makes the names lead to the other addresses, and silences the previous ones.
func move(_ context.Context, s Scene) {
	f := s.Front
	for i, m := range s.Cluster.Members() {
		from, to := s.Cluster.ClientLink(m), f.others[i]
		if f.moved {
			from, to = to, from
		}
		from.Blackhole(link.Both)
		to.Heal()
		host, _, _ := net.SplitHostPort(to.Addr())
		f.names.Set(nameOf(m)+". A", "1 "+host)
	}
	f.moved = !f.moved
}

// freezeBehind stops the member behind the only endpoint, and makes new connections reach another one.
func freezeBehind(_ context.Context, s Scene) {
	members := s.Cluster.Members()
	m := members[s.Front.behind]
	s.Front.behind = (s.Front.behind + 1) % len(members)
	s.Cluster.ClientLink(members[0]).SetTarget(addressOf(members[s.Front.behind]))
	s.Note(m.Name() + ", behind the endpoint, is stopped")
	fatal.If(m.Freeze())
}

// Close ends what the front made.
func (f *Front) Close() error {
	var errs []error
	if f.names != nil {
		net.DefaultResolver.PreferGo, net.DefaultResolver.Dial = false, nil
		errs = append(errs, f.names.Close())
	}
	for _, l := range f.others {
		errs = append(errs, l.Close())
	}
	return errors.Join(errs...)
}
