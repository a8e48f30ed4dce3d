package fault

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/quorate/quorate/internal/pause"
	"github.com/quorate/quorate/lab"
	"github.com/quorate/quorate/lab/internal/fatal"
	"github.com/quorate/quorate/lab/link"
)

const (
	// siblings is the number of other clients of the member while one client loses a
	// flow.
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

func forgetAll(_ context.Context, s Scene) {
	for _, m := range s.Cluster.Members() {
		for _, c := range s.Cluster.ClientLink(m).Conns() {
			c.Forget()
		}
	}
}

// forgetOne forgets the flows of one client to the member that sends it most, which
// serves its watches, while the siblings work on. If the links cannot distinguish
// clients, because others are connected already, it forgets one flow.
func forgetOne(ctx context.Context, s Scene) {
	own := make(map[*lab.Member][]*link.Conn)
	before := make(map[*lab.Member]uint64)
	for _, m := range s.Cluster.Members() {
		if own[m] = s.Cluster.ClientLink(m).Conns(); len(own[m]) == 0 {
			delete(own, m)
		}
		before[m] = returned(own[m])
	}
	if len(own) == 0 {
		fatal.If(errors.New("no client is connected"))
	}
	if s.Join == nil {
		all := slices.Concat(slices.Collect(maps.Values(own))...)
		all[s.Rand.IntN(len(all))].Forget()
		return
	}
	leave := s.join(ctx, siblings, nil)
	defer leave()
	fatal.If(pause.For(ctx, warmUp))
	busiest := slices.MaxFunc(slices.Collect(maps.Keys(own)), func(a, b *lab.Member) int {
		return int(returned(own[a])-before[a]) - int(returned(own[b])-before[b])
	})
	s.Note(fmt.Sprintf("the flows of a client to %s are forgotten", busiest.Name()))
	for _, c := range own[busiest] {
		c.Forget()
	}
	fatal.If(pause.For(ctx, s.hold()))
}

func returned(conns []*link.Conn) (n uint64) {
	for _, c := range conns {
		n += c.Returned()
	}
	return n
}

// join connects n clients that get and put all the time, until leave is called.
func (s Scene) join(ctx context.Context, n int, security *tls.Config) (leave func()) {
	ctx, cancel := context.WithCancel(ctx)
	var work sync.WaitGroup
	leave = func() {
		cancel()
		work.Wait()
	}
	for i := range n {
		c, err := s.Join(security)
		if err != nil {
			leave()
			fatal.If(err)
		}
		work.Go(func() {
			key := fmt.Sprintf("/quorate-lab-siblings/%d", i)
			for pause.For(ctx, siblingPause) == nil {
				calling, cancel := context.WithTimeout(ctx, siblingTimeout)
				_ = c.Store.Put(calling, key, key) // only the attempt matters
				_, _ = c.Store.Get(calling, key, "")
				cancel()
			}
			_ = c.Close()
		})
	}
	return leave
}

// lose makes a member lose packets to and from clients and members.
func lose(_ context.Context, s Scene, m *lab.Member) {
	s.Cluster.ClientLink(m).Lose(link.Both, lossShare)
	s.eachPeer(m, func(to, from *link.Link) {
		to.Lose(link.Both, lossShare)
		from.Lose(link.Both, lossShare)
	})
}

func swallow(_ context.Context, s Scene) {
	for _, m := range s.Cluster.Members() {
		s.Cluster.ClientLink(m).Lose(link.Both, 1)
		s.eachPeer(m, func(to, _ *link.Link) { to.Lose(link.Both, 1) })
	}
}

func move(_ context.Context, s Scene) { fatal.If(s.Front.move()) }

func freezeBehind(_ context.Context, s Scene) {
	m := s.Front.pass()
	s.Note(m.Name() + ", behind the endpoint, is stopped")
	fatal.If(m.Stop())
}
