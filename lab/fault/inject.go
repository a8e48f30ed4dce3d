package fault

import (
	"context"
	"crypto/tls"
	"fmt"
	"slices"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"golang.org/x/sync/errgroup"

	"github.com/quorate/quorate/internal/fatal"
	"github.com/quorate/quorate/internal/pause"
	"github.com/quorate/quorate/lab"
	"github.com/quorate/quorate/lab/link"
	"github.com/quorate/quorate/lab/robustness/linear/model"
)

const (
	// slowness is what the slow fault adds to everything that its member sends.
	slowness = 200 * time.Millisecond
	// clientDelay is what the links of all clients add in the fault of that name.
	clientDelay = 100 * time.Millisecond
	// terminateTimeout bounds the end of a member that is asked to end.
	terminateTimeout = 20 * time.Second
	// healTimeout bounds how long the cluster may take to be ready after a fault. It takes about a second.
	healTimeout = time.Minute
	// lostFor is how long there is no majority: long enough for every call to meet it,
	// and short compared with the default deadline of calls of the lab.
	lostFor = 3 * time.Second
)

// injection injects a fault. An error ends it, see package fatal.
type injection func(context.Context, Scene)

// action is what happens to a member.
type action func(context.Context, Scene, *lab.Member)

func kill(_ context.Context, _ Scene, m *lab.Member) { fatal.If(m.Kill()) }

func stop(_ context.Context, _ Scene, m *lab.Member) { fatal.If(m.Freeze()) }

// silence makes the clients' link to a member swallow everything.
func silence(_ context.Context, s Scene, m *lab.Member) { s.Cluster.ClientLink(m).Blackhole(link.Both) }

// isolate cuts a member off from the others.
func isolate(_ context.Context, s Scene, m *lab.Member) { s.Cluster.Isolate(m) }

// eachLink calls do with the links of a member to clients and members, and the direction in which it sends. A message from one
// member to another is sent on a connection that either of them dialled, so both links count.
func (s Scene) eachLink(m *lab.Member, do func(l *link.Link, sends link.Direction)) {
	do(s.Cluster.ClientLink(m), link.Reverse)
	for _, other := range s.Cluster.Others(m) {
		do(s.Cluster.PeerLink(m, other), link.Forward)
		do(s.Cluster.PeerLink(other, m), link.Reverse)
	}
}

// slow delays what a member sends.
func slow(_ context.Context, s Scene, m *lab.Member) {
	s.eachLink(m, func(l *link.Link, sends link.Direction) { l.Delay(sends, slowness) })
}

// onFollower chooses a follower, notes it, and takes an action on it.
func onFollower(do action) injection {
	return func(ctx context.Context, s Scene) {
		m := follower(ctx, s)
		s.Note(m.Name() + ", a follower")
		do(ctx, s, m)
	}
}

// onLeader notes the leader, and takes an action on it.
func onLeader(do action) injection {
	return func(ctx context.Context, s Scene) {
		m := fatal.OK(s.Cluster.Leader(ctx))
		s.Note(m.Name() + ", the leader")
		do(ctx, s, m)
	}
}

// moveLeader hands leadership to a follower, as an operator does before a restart.
var moveLeader = onFollower(func(ctx context.Context, s Scene, m *lab.Member) {
	fatal.If(s.Cluster.MoveLeader(ctx, m))
})

func rollingRestart(ctx context.Context, s Scene) {
	for _, m := range s.Cluster.Members() {
		terminate(ctx, s, m)
		fatal.If(m.Restart(ctx))
		fatal.If(s.Cluster.WaitReady(ctx))
	}
}

// terminate asks a member to end and kills it when that takes too long.
func terminate(ctx context.Context, s Scene, m *lab.Member) {
	s.Note(m.Name() + " is terminated")
	ctx, cancel := context.WithTimeout(ctx, terminateTimeout)
	defer cancel()
	if m.Terminate(ctx) != nil {
		fatal.If(m.Kill())
	}
}

// follower chooses a member that does not lead, and is not stopped already.
func follower(ctx context.Context, s Scene) *lab.Member {
	followers := slices.DeleteFunc(s.Cluster.Others(fatal.OK(s.Cluster.Leader(ctx))), (*lab.Member).Frozen)
	if len(followers) == 0 {
		fatal.If(fmt.Errorf("the cluster has no follower; it needs at least %d members", MinMembers))
	}
	return followers[s.Rand.IntN(len(followers))]
}

func terminateOne(ctx context.Context, s Scene) {
	members := s.Cluster.Members()
	terminate(ctx, s, members[s.Rand.IntN(len(members))])
}

// onAll takes an action on all members.
func onAll(do action) injection {
	return func(ctx context.Context, s Scene) {
		for _, m := range s.Cluster.Members() {
			do(ctx, s, m)
		}
	}
}

// onClientLinks returns a fault of the clients' links to all members.
func onClientLinks(do func(*link.Link)) injection {
	return onAll(func(_ context.Context, s Scene, m *lab.Member) { do(s.Cluster.ClientLink(m)) })
}

// defrag defragments a member again and again for the Hold of the scene. Meanwhile
// the member answers nothing that needs its store. A store of the lab's size takes
// a fraction of a second, one of gigabytes many seconds, so repeating it
// approximates what operators see.
func defrag(ctx context.Context, s Scene, m *lab.Member) {
	for end := time.Now().Add(s.hold()); time.Now().Before(end); {
		_, err := pb.NewMaintenanceClient(m.Conn()).Defragment(ctx, &pb.DefragmentRequest{})
		fatal.If(err, "defragment "+m.Name())
	}
}

// some acts on a number of members, which it chooses.
func (s Scene) some(n int, what string, act func(*lab.Member) error) []*lab.Member {
	members := s.Cluster.Members()
	s.Rand.Shuffle(len(members), func(i, j int) { members[i], members[j] = members[j], members[i] })
	for _, m := range members[:n] {
		s.Note(m.Name() + " " + what)
		fatal.If(act(m))
	}
	return members[:n]
}

// majorityLost kills just enough members that no majority is left, and then restarts
// one of them, which restores the majority.
func majorityLost(ctx context.Context, s Scene) {
	killed := s.some((len(s.Cluster.Members())+1)/2, "is killed", (*lab.Member).Kill)
	fatal.If(pause.For(ctx, lostFor))
	back := killed[0]
	s.Note(back.Name() + " is restarted")
	fatal.If(back.Restart(ctx))
	fatal.If(s.Cluster.WaitReady(ctx))
}

// Heal ends every fault: links carry again, stopped members continue, those that
// are not running are restarted, and all agree on a leader. It returns when all of
// this is done, or with an error when ctx ends first, or a minute has passed.
func Heal(ctx context.Context, s Scene) error {
	ctx, cancel := context.WithTimeout(ctx, healTimeout)
	defer cancel()
	s.Cluster.Heal()
	var reviving errgroup.Group
	for _, m := range s.Cluster.Members() {
		reviving.Go(func() error {
			if !m.Alive() {
				return m.Restart(ctx)
			}
			return m.Continue()
		})
	}
	err := reviving.Wait()
	if err == nil {
		err = s.Cluster.WaitReady(ctx)
	}
	if err != nil {
		return fmt.Errorf("heal: %w", err)
	}
	return nil
}

const (
	// siblings is the number of other clients of the process while one client loses its
	// flows.
	siblings = 2
	// siblingPause is the time between two calls of a sibling.
	siblingPause = 20 * time.Millisecond
	// siblingTimeout is the deadline of its calls.
	siblingTimeout = 2 * time.Second
	// warmUp is how long siblings work before a fault.
	warmUp = time.Second
	// lossShare is the share of packets that the fault loss loses.
	lossShare = 0.2
)

// forget makes the flows of clients to a member carry nothing more.
func forget(_ context.Context, s Scene, m *lab.Member) {
	for _, c := range s.Cluster.ClientLink(m).Conns() {
		c.Forget()
	}
}

// forgetOne forgets the flows to the member that has sent most to the connected clients, because it
// serves their watches, while siblings work.
func forgetOne(ctx context.Context, s Scene) {
	busiest, most := []*link.Conn(nil), -1
	for _, m := range s.Cluster.Members() {
		conns, returned := s.Cluster.ClientLink(m).Conns(), 0
		for _, c := range conns {
			returned += int(c.Returned())
		}
		if returned > most {
			busiest, most = conns, returned
		}
	}
	defer s.join(ctx, siblings, nil)()
	fatal.If(pause.For(ctx, warmUp))
	for _, c := range busiest {
		c.Forget()
	}
	fatal.If(pause.For(ctx, s.hold()))
}

// join connects n clients that get and put all the time, until leave is called. A scene without Join has other clients.
func (s Scene) join(ctx context.Context, n int, security *tls.Config) (leave func()) {
	ctx, cancel := context.WithCancel(ctx)
	var work sync.WaitGroup
	leave = func() {
		cancel()
		work.Wait()
	}
	for i := range n {
		if s.Join == nil {
			break
		}
		c, err := s.Join(security)
		if err != nil {
			leave()
			fatal.If(err)
		}
		work.Go(func() {
			keys := [model.Keys]string{fmt.Sprintf("/quorate-lab-siblings/%d", i)}
			put := model.Request{Kind: model.Put, Then: []model.Act{{Verb: model.Write}}}
			get := model.Request{Kind: model.Get, Then: []model.Act{{Verb: model.Read}}}
			for pause.For(ctx, siblingPause) == nil {
				calling, cancel := context.WithTimeout(ctx, siblingTimeout)
				_, _ = c.KV.Do(calling, keys, put) // only the attempt matters
				_, _ = c.KV.Do(calling, keys, get)
				cancel()
			}
			_ = c.Close()
		})
	}
	return leave
}

// lose makes a member lose packets to and from clients and members.
func lose(_ context.Context, s Scene, m *lab.Member) {
	s.eachLink(m, func(l *link.Link, _ link.Direction) { l.Lose(link.Both, lossShare) })
}

const (
	// flapHalf is how long a follower that flaps is frozen, and then well.
	flapHalf = 2 * time.Second
	// pauseLength is how long a member pauses, and pauseEvery the time from pause to pause.
	pauseLength, pauseEvery = 700 * time.Millisecond, 3 * time.Second
	// transferEvery is the time between two transfers of leadership.
	transferEvery = time.Second
	// secondFreeze is how long the second member is frozen.
	secondFreeze = 10 * time.Second
	// expiredClients is how many clients have an expired certificate.
	expiredClients = 20
	// expiredWarmUp is how long they try before a member is frozen.
	expiredWarmUp = 10 * time.Second
)

func freezeMajority(_ context.Context, s Scene) {
	s.some(len(s.Cluster.Members())/2+1, "is stopped", (*lab.Member).Freeze)
}

// pauseRepeatedly stops a follower for a time in each interval.
func pauseRepeatedly(length, interval time.Duration) injection {
	return onFollower(func(ctx context.Context, s Scene, m *lab.Member) {
		for end := time.Now().Add(s.hold()); time.Now().Before(end); {
			fatal.If(m.Freeze())
			fatal.If(pause.For(ctx, length))
			fatal.If(m.Continue())
			fatal.If(pause.For(ctx, interval-length))
		}
	})
}

func transfer(ctx context.Context, s Scene) {
	for end := time.Now().Add(s.hold()); time.Now().Before(end); {
		if err := fatal.Catch(func() { moveLeader(ctx, s) }); err != nil {
			s.Note(err.Error()) // the next one may succeed
		}
		fatal.If(pause.For(ctx, transferEvery))
	}
}

// freezeSecond leaves the first follower frozen.
func freezeSecond(ctx context.Context, s Scene) {
	if n := len(s.Cluster.Members()); n < 5 {
		fatal.If(fmt.Errorf("a majority must outlive two members: the cluster needs at least 5, and has %d", n))
	}
	freeze := onFollower(stop)
	freeze(ctx, s)
	fatal.If(pause.For(ctx, s.hold()))
	freeze(ctx, s)
	fatal.If(pause.For(ctx, secondFreeze))
}

func freezeBesideExpired(ctx context.Context, s Scene) {
	defer s.join(ctx, expiredClients, s.Cluster.ExpiredClientTLS())()
	fatal.If(pause.For(ctx, expiredWarmUp))
	onFollower(stop)(ctx, s)
	fatal.If(pause.For(ctx, s.hold()))
}
