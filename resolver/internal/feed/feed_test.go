package feed

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

// channel records updates. It refuses the first of them.
type channel struct {
	gresolver.ClientConn
	refusals int           // the number of updates that it refuses
	pause    time.Duration // the time that an update takes

	mu      sync.Mutex
	updates []time.Time
	reports []string
	last    string // the address in the latest list
}

// updated returns the times of the updates.
func (c *channel) updated() []time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.updates)
}

func (c *channel) reported() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.reports)
}

func (c *channel) UpdateState(s gresolver.State) error {
	time.Sleep(c.pause)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.updates = append(c.updates, time.Now())
	if len(s.Endpoints) > 0 {
		c.last = s.Endpoints[0].Addresses[0].Addr
	}
	if c.refusals == 0 {
		return nil
	}
	c.refusals--
	return errors.New("bad resolver state")
}

func (c *channel) ReportError(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reports = append(c.reports, err.Error())
}

func one(addr string) []gresolver.Endpoint {
	return []gresolver.Endpoint{{Addresses: []gresolver.Address{{Addr: addr}}}}
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serve runs Serve until stop is called.
func serve(t *testing.T, f *Feed[State], cc gresolver.ClientConn) (stop func()) {
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

// A list that the channel refuses is passed again, with growing pauses.
func TestRefusedList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cc := &channel{refusals: 12}
		f := New(State{Endpoints: one("a")})
		defer serve(t, f, cc)()
		synctest.Wait()
		time.Sleep(time.Hour)
		updates := cc.updated()
		require.Len(t, updates, 13)
		require.Equal(t, firstRetry, updates[1].Sub(updates[0]))
		require.Equal(t, 2*firstRetry, updates[2].Sub(updates[1]))
		require.Equal(t, longestRetry, updates[12].Sub(updates[11]))
		require.Empty(t, cc.reported())
	})
}

// A newer list replaces a refused one, and an equal list is not passed again.
func TestNewerListReplacesARefusedOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cc := &channel{refusals: 1}
		f := New(State{Endpoints: one("a")})
		defer serve(t, f, cc)()
		synctest.Wait()
		f.Publish(State{Endpoints: one("b")})
		synctest.Wait()
		f.Publish(State{Endpoints: one("b")})
		time.Sleep(time.Hour)
		require.Len(t, cc.updated(), 2)
	})
}

func TestServeEndsWithTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cc := &channel{refusals: 100}
		f := New(State{Endpoints: one("a")})
		stop := serve(t, f, cc)
		synctest.Wait()
		stop()
		f.Publish(State{Endpoints: one("b"), Problem: &Problem{"away"}})
		time.Sleep(time.Hour)
		require.Len(t, cc.updated(), 1)
		require.Empty(t, cc.reported())
	})
}

// An empty list, which policies refuse, is passed once, and its problem is reported once.
func TestEmptyList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cc := &channel{refusals: 100}
		f := New(State{})
		defer serve(t, f, cc)()
		synctest.Wait()
		none := &Problem{"none is registered"}
		f.Publish(State{Problem: none})
		time.Sleep(time.Hour)
		require.Empty(t, cc.updated(), "no list yet")
		f.Publish(State{Listed: true, Problem: none})
		time.Sleep(time.Hour)
		require.Len(t, cc.updated(), 1)
		f.Publish(State{Endpoints: one("a")})
		synctest.Wait()
		f.Publish(State{Problem: none})
		synctest.Wait()
		f.Publish(State{Problem: none})
		time.Sleep(time.Hour)
		require.Len(t, cc.updated(), 3)
		require.Equal(t, []string{"none is registered", "none is registered"}, cc.reported())
	})
}

// Under continuous changes a slow channel receives fewer lists.
func TestSlowChannel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cc := &channel{pause: 10 * time.Millisecond}
		f := New(State{})
		defer serve(t, f, cc)()
		for i := range 1000 {
			f.Publish(State{Endpoints: one(strconv.Itoa(i))})
			time.Sleep(time.Millisecond)
		}
		time.Sleep(time.Second)
		require.InDelta(t, 50, len(cc.updated()), 5)
		require.Equal(t, "999", cc.last)
	})
}
