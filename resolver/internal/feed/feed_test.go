package news

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	gresolver "google.golang.org/grpc/resolver"
)

// picky is a channel that does not accept states while refusals lasts.
type picky struct {
	gresolver.ClientConn
	mu       sync.Mutex
	refusals int
	updates  []time.Time
	reports  []string
	pause    time.Duration
	last     string // the address in the latest list
}

// took returns when the channel was updated.
func (p *picky) took() []time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.updates)
}

func (p *picky) UpdateState(s gresolver.State) error {
	time.Sleep(p.pause)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.updates = append(p.updates, time.Now())
	if len(s.Endpoints) > 0 {
		p.last = s.Endpoints[0].Addresses[0].Addr
	}
	if p.refusals == 0 {
		return nil
	}
	p.refusals--
	return errors.New("bad resolver state")
}

func (p *picky) ReportError(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reports = append(p.reports, err.Error())
}

func one(addr string) []gresolver.Endpoint {
	return []gresolver.Endpoint{{Addresses: []gresolver.Address{{Addr: addr}}}}
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func (p *picky) reported() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.reports)
}

// tell has a feed tell a channel, until the test ends.
func tell(t *testing.T, f *Feed[State], cc gresolver.ClientConn) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		f.Serve(ctx, cc, AsIs)
	}()
	return func() {
		cancel()
		<-done
	}
}

// A list that the channel does not accept is told again, with growing pauses.
func TestTellingAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cc := &picky{refusals: 12}
		f := New(State{Endpoints: one("a")})
		defer tell(t, f, cc)()
		synctest.Wait()
		time.Sleep(time.Hour)
		updates := cc.took()
		require.Len(t, updates, 13)
		require.Equal(t, firstRetry, updates[1].Sub(updates[0]))
		require.Equal(t, 2*firstRetry, updates[2].Sub(updates[1]))
		require.Equal(t, longestRetry, updates[12].Sub(updates[11]))
		require.Empty(t, cc.reported())
	})
}

// A newer list takes the place of one that is to be told again, and an equal one is not told.
func TestTellingAnotherList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cc := &picky{refusals: 1}
		f := New(State{Endpoints: one("a")})
		defer tell(t, f, cc)()
		synctest.Wait()
		f.Publish(State{Endpoints: one("b")})
		synctest.Wait()
		f.Publish(State{Endpoints: one("b")})
		time.Sleep(time.Hour)
		require.Len(t, cc.took(), 2)
	})
}

func TestTellingEndsWithTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cc := &picky{refusals: 100}
		f := New(State{Endpoints: one("a")})
		stop := tell(t, f, cc)
		synctest.Wait()
		stop()
		f.Publish(State{Endpoints: one("b"), Problem: &Problem{"away"}})
		time.Sleep(time.Hour)
		require.Len(t, cc.took(), 1)
		require.Empty(t, cc.reported())
	})
}

// That policies refuse an empty list is no reason to tell it again. Its problem is told once.
func TestTellingNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cc := &picky{refusals: 100}
		f := New(State{})
		defer tell(t, f, cc)()
		synctest.Wait()
		none := &Problem{"none is registered"}
		f.Publish(State{Problem: none})
		time.Sleep(time.Hour)
		require.Empty(t, cc.took(), "there was no list before")
		f.Publish(State{Listed: true, Problem: none})
		time.Sleep(time.Hour)
		require.Len(t, cc.took(), 1)
		f.Publish(State{Endpoints: one("a")})
		synctest.Wait()
		f.Publish(State{Problem: none})
		synctest.Wait()
		f.Publish(State{Problem: none})
		time.Sleep(time.Hour)
		require.Len(t, cc.took(), 3)
		require.Equal(t, []string{"none is registered", "none is registered"}, cc.reported())
	})
}

// While changes come all the time, a channel that is slow to take lists gets fewer.
func TestTellingASlowChannel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cc := &picky{pause: 10 * time.Millisecond}
		f := New(State{})
		defer tell(t, f, cc)()
		for i := range 1000 {
			f.Publish(State{Endpoints: one(strconv.Itoa(i))})
			time.Sleep(time.Millisecond)
		}
		time.Sleep(time.Second)
		require.InDelta(t, 50, len(cc.took()), 5)
		require.Equal(t, "999", cc.last)
	})
}
