package lease

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.uber.org/goleak"

	"github.com/quorate/quorate/internal/pause"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// ttl is the TTL of the leases in these tests, and firstAnswer their bound for the first answer.
const (
	ttl         = time.Minute
	firstAnswer = 50 * time.Second
)

// rig is a machine with a clock of its own.
type rig struct {
	t     testing.TB
	m     *Machine
	epoch time.Time
	now   time.Time
	drawn float64 // the next random number
}

func newRig(t testing.TB) *rig {
	r := &rig{t: t, epoch: time.Unix(1e9, 0)}
	r.now = r.epoch
	r.m = NewMachine(r.epoch, firstAnswer, func() float64 { return r.drawn })
	return r
}

// probe is a subscriber that records its calls.
type probe struct {
	Subscriber
	id   int64
	over chan struct{} // closed by Close

	mu         sync.Mutex
	validUntil time.Time
	ttls       []int64
	closed     int
	cause      error
}

func newProbe(id int64, s Subscriber) *probe {
	p := &probe{Subscriber: s, id: id, over: make(chan struct{})}
	p.Sink = p
	return p
}

func (p *probe) Valid(renewed time.Time, ttl time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.validUntil = renewed.Add(ttl)
}

func (p *probe) Deliver(resp *pb.LeaseKeepAliveResponse) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed > 0 {
		panic("delivered to a subscriber that was closed")
	}
	p.ttls = append(p.ttls, resp.TTL)
}

func (p *probe) Close(cause error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed++; p.closed == 1 {
		p.cause = cause
		close(p.over)
	}
}

// valid returns the latest time that Valid was called with.
func (p *probe) valid() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.validUntil
}

func (p *probe) delivered() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.ttls)
}

func (p *probe) isClosed() bool { return pause.Closed(p.over) }

func (r *rig) subscribe(id int64, s Subscriber) *probe {
	p := newProbe(id, s)
	r.m.Subscribe(r.now, id, &p.Subscriber)
	return p
}

func (r *rig) keep(id int64) *probe { return r.subscribe(id, Subscriber{}) }
func (r *rig) once(id int64) *probe { return r.subscribe(id, Subscriber{Once: true}) }

func (r *rig) leave(p *probe, cause error) { r.m.Unsubscribe(r.now, &p.Subscriber, cause) }

// pass advances the clock and the machine.
func (r *rig) pass(d time.Duration) {
	r.now = r.now.Add(d)
	r.m.Advance(r.now)
}

// connect opens a stream if there is none.
func (r *rig) connect() {
	if r.m.phase == open {
		return
	}
	r.m.Opening(r.now)
	r.m.Opened(r.now)
}

// take takes all requests to send.
func (r *rig) take() []int64 { return r.takeUpTo(1024) }

// takeUpTo takes at most the given number of requests.
func (r *rig) takeUpTo(limit int) (ids []int64) {
	requests := r.m.Take(r.now, limit)
	for i := range requests {
		ids = append(ids, requests[i].ID)
	}
	return ids
}

// refuse ends the stream with the refusal of a request.
func (r *rig) refuse(err error) {
	r.m.Lost(r.now, err)
	r.m.Lost(r.now, errBroken) // as when the engine itself has ended the stream
	r.m.Refused(r.now, err)
}

// wakesAfter returns how long the machine has nothing to do.
func (r *rig) wakesAfter() time.Duration {
	r.t.Helper()
	wake, ok := r.m.WakeAt()
	require.True(r.t, ok)
	return wake.Sub(r.now)
}

func (r *rig) answer(id int64, ttl time.Duration) {
	r.m.Answered(r.now, &pb.LeaseKeepAliveResponse{ID: id, TTL: int64(ttl / time.Second)})
}

func (r *rig) state(id int64) State {
	if l, ok := r.m.leases[id]; ok {
		return l.state
	}
	return Gone
}

// renewed subscribes to a lease and answers its first renewal.
func (r *rig) renewed(id int64) *probe {
	p := r.keep(id)
	r.connect()
	require.Equal(r.t, []int64{id}, r.take())
	r.answer(id, ttl)
	require.Equal(r.t, Waiting, r.state(id))
	return p
}

// check checks the invariants of the machine.
func (r *rig) check() {
	r.t.Helper()
	m := r.m
	queues := map[*queue]int{&m.waiting: 0, &m.due: 0, &m.sent: 0, &m.abandoned: 0}
	for id, l := range m.leases {
		require.Equal(r.t, id, l.id)
		q, when := m.queueOf(l)
		require.NotNil(r.t, q, "lease %d is %v and known", id, l.state)
		require.Less(r.t, int(l.index), len(*q), "lease %d in %v", id, l.state)
		require.Same(r.t, l, (*q)[l.index], "lease %d in %v", id, l.state)
		require.Equal(r.t, when, (*q)[l.index].when, "lease %d in %v", id, l.state)
		queues[q]++
		r.checkSubscribers(l)
	}
	for q, n := range queues {
		require.Len(r.t, *q, n)
		requireOrdered(r.t, *q)
	}
	if m.phase != open {
		require.Empty(r.t, m.sent)
		require.Empty(r.t, m.abandoned)
	}
}

func (r *rig) checkSubscribers(l *entry) {
	r.t.Helper()
	m := r.m
	require.Equal(r.t, l.state == Abandoned, len(l.subscribers) == 0, "lease %d in %v", l.id, l.state)
	require.Equal(r.t, l.state == Repeating, l.state.unanswered() && l.repeats(), "lease %d in %v", l.id, l.state)
	keepers := 0
	for _, s := range l.subscribers {
		require.Same(r.t, l, s.lease)
		if !s.Once {
			keepers++
		}
	}
	require.EqualValues(r.t, keepers, l.keepers)
	if keepers == 0 {
		require.Equal(r.t, never, l.deadline, "lease %d in %v", l.id, l.state)
	}
	if l.state == Waiting {
		require.LessOrEqual(r.t, l.due, max(l.deadline, m.now), "a waiting lease expires only after it is due")
	}
}
