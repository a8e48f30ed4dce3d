package etcd

import (
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	gresolver "google.golang.org/grpc/resolver"
)

// picky is a channel that does not accept states while refusals lasts.
type picky struct {
	gresolver.ClientConn
	mu       sync.Mutex
	refusals int
	updates  []time.Time
	reports  []string
}

// took returns when the channel was updated.
func (p *picky) took() []time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.updates)
}

func (p *picky) UpdateState(gresolver.State) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.updates = append(p.updates, time.Now())
	if p.refusals == 0 {
		return nil
	}
	p.refusals--
	return errors.New("bad resolver state")
}

func (p *picky) ReportError(err error) { p.reports = append(p.reports, err.Error()) }

func one(addr string) []gresolver.Endpoint {
	return []gresolver.Endpoint{{Addresses: []gresolver.Address{{Addr: addr}}}}
}

// A list that the channel does not accept is published again, with growing pauses.
func TestPublishingAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cc := &picky{refusals: 12}
		p := publisher{service: "svc", cc: cc}
		p.publish(one("a"))
		p.publish(one("a")) // is known
		require.Len(t, cc.took(), 1)
		time.Sleep(time.Hour)
		synctest.Wait()
		require.Len(t, cc.took(), 13)
		updates := cc.took()
		require.Equal(t, firstRetry, updates[1].Sub(updates[0]))
		require.Equal(t, 2*firstRetry, updates[2].Sub(updates[1]))
		require.Equal(t, maxRetry, updates[12].Sub(updates[11]))
		require.Empty(t, cc.reports)
		p.close()
	})
}

// A newer list takes the place of one that is to be published again.
func TestPublishingAnotherList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cc := &picky{refusals: 1}
		p := publisher{service: "svc", cc: cc}
		p.publish(one("a"))
		p.publish(one("b"))
		time.Sleep(time.Hour)
		synctest.Wait()
		require.Len(t, cc.took(), 2)
		p.close()
	})
}

func TestPublishingEndsWithClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cc := &picky{refusals: 100}
		p := publisher{service: "svc", cc: cc}
		p.publish(one("a"))
		p.close()
		p.publish(one("b"))
		p.lost(errors.New("etcd is away"))
		p.regained()
		time.Sleep(time.Hour)
		synctest.Wait()
		require.Len(t, cc.took(), 1)
		require.Empty(t, cc.reports)
	})
}

// That policies refuse an empty list is no reason to publish it again.
func TestPublishingNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cc := &picky{refusals: 100}
		p := publisher{service: "svc", cc: cc}
		p.publish(nil)
		time.Sleep(time.Hour)
		synctest.Wait()
		require.Len(t, cc.took(), 1)
		require.Equal(t, []string{`etcd: service "svc": no endpoint is registered`}, cc.reports)
		p.close()
	})
}
