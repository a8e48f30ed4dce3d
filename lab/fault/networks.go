package fault

import (
	"context"
	"crypto/tls"
	"fmt"
	"sync"
	"time"

	"github.com/quorate/quorate/internal/fatal"
	"github.com/quorate/quorate/internal/pause"
	"github.com/quorate/quorate/lab"
	"github.com/quorate/quorate/lab/link"
	"github.com/quorate/quorate/lab/robustness/linear/model"
)

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
