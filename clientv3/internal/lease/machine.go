package lease

import (
	"container/heap"
	"slices"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/quorate/quorate/observe"
)

// Machine decides when each lease is renewed, and notifies its subscribers. Times
// passed to it must not go backwards. It is not safe for concurrent use.
type Machine struct {
	epoch       time.Time
	now         instant
	firstAnswer time.Duration
	random      func() float64

	leases    map[int64]*entry
	waiting   queue // Waiting, by when they are due
	due       queue // Due, by deadline
	sent      queue // Awaiting and Repeating, by deadline
	abandoned queue // Abandoned, in no order
	grants    grants

	requests         uint64              // the number of requests sent
	lost             []observe.LeaseLoss // not taken yet, see TakeLost
	phase            phase
	lastErr          error         // of the latest stream
	unansweredAtLoss bool          // the lost stream had unanswered requests
	oldest           *entry        // the oldest unanswered lease of the lost stream; nil if Gone
	quiet            instant       // when the silence of the stream, or of its opening, began
	shortest         time.Duration // the shortest TTL since no request was due or unanswered
	moveAt           instant       // when the stream moves off a removed endpoint

	// tolerance is how long a stream may be silent because earlier ones were slow.
	// slow is when an answer last needed it.
	tolerance time.Duration
	slow      instant
}

type entry struct {
	id      int64
	index   int32 // in the queue of its state
	keepers int32 // the number of subscribers other than Once
	state   State
	// spread says that the next renewal gets a random time, because the latest request
	// goes together with those of other leases.
	spread  bool
	request uint64  // the number of the latest request
	when    instant // orders the queue
	sent    instant
	due     instant
	// renewed is the send time of the request from which ttl counts. ttl is 0 if
	// unknown.
	renewed instant
	ttl     time.Duration
	// deadline is when the keepers end, never if there are none.
	deadline    instant
	subscribers []*Subscriber
	first       [1]*Subscriber // backs subscribers while there is only one, the usual case
}

// NewMachine returns a Machine without leases. Its time starts at epoch. The
// keepers of a lease with unknown expiry end if no answer arrives within
// firstAnswer. random returns numbers between 0 and 1.
func NewMachine(epoch time.Time, firstAnswer time.Duration, random func() float64) *Machine {
	return &Machine{
		epoch:       epoch,
		firstAnswer: firstAnswer,
		random:      random,
		leases:      make(map[int64]*entry),
		shortest:    maxSilence * silenceShare,
		moveAt:      never,
	}
}

func (m *Machine) at(now time.Time) { m.now = instant(now.Sub(m.epoch)) }

// queueOf returns the queue of a lease's state, and the time that orders it.
func (m *Machine) queueOf(l *entry) (*queue, instant) {
	switch l.state {
	case Waiting:
		return &m.waiting, l.due
	case Due:
		return &m.due, l.deadline
	case Awaiting, Repeating:
		return &m.sent, l.deadline
	case Abandoned:
		return &m.abandoned, 0
	default:
		return nil, never
	}
}

// move changes the state of a lease, or its position in the queue.
func (m *Machine) move(l *entry, to State) {
	demanded := m.demands()
	if q, _ := m.queueOf(l); q != nil {
		q.remove(l)
	}
	l.state = to
	if q, when := m.queueOf(l); q != nil {
		q.push(l, when)
	} else {
		m.forget(l)
	}
	if !demanded && m.demands() {
		m.quiet = m.now
	}
	switch {
	case to == Due:
		m.shortest = min(m.shortest, m.ttlOf(l))
	case len(m.due)+len(m.sent)+len(m.abandoned) == 0:
		m.shortest = maxSilence * silenceShare
	}
}

// forget drops a lease, and keeps a record of its certain lifetime for a later
// subscriber.
func (m *Machine) forget(l *entry) {
	delete(m.leases, l.id)
	if m.oldest == l {
		m.oldest = nil
	}
	if l.ttl > 0 && l.renewed.add(l.ttl) > m.now {
		m.grants.add(m.now, l.id, grant{sent: l.renewed, ttl: l.ttl})
	}
}

// ttlOf returns the TTL of a lease, or an estimate.
func (m *Machine) ttlOf(l *entry) time.Duration {
	if l.ttl > 0 {
		return l.ttl
	}
	return m.firstAnswer
}

// Granted records that a lease was granted for ttl seconds by a request sent at the
// given time.
func (m *Machine) Granted(now, sent time.Time, id, ttl int64) {
	m.at(now)
	if ttl > 0 {
		m.grants.add(m.now, id, grant{sent: instant(sent.Sub(m.epoch)), ttl: seconds(ttl)})
	}
}

// Subscribe adds a subscriber to a lease. The lease is due at once if it is not
// kept alive yet, or if the subscriber is a Once.
func (m *Machine) Subscribe(now time.Time, id int64, s *Subscriber) {
	m.at(now)
	l, known := m.leases[id]
	if !known {
		granted := m.grants.take(id)
		l = &entry{
			id: id, state: Gone, spread: true, deadline: never,
			renewed: granted.sent, ttl: granted.ttl,
		}
		l.subscribers = l.first[:0]
		m.leases[id] = l
	}
	s.lease = l
	s.from = l.request + 1
	l.subscribers = append(l.subscribers, s)
	if !s.Once {
		m.keep(l)
	}
	switch l.state {
	case Gone:
		m.move(l, Due)
	case Waiting:
		if s.Once {
			m.move(l, Due)
		}
	case Awaiting:
		if s.Once {
			m.move(l, Repeating)
		} else {
			s.from = l.request
		}
	case Abandoned:
		m.move(l, Repeating)
	default:
	}
	if l.ttl > 0 {
		s.Sink.Valid(m.epoch.Add(time.Duration(l.renewed)), l.ttl)
	}
}

// keep adds a keeper. The first one sets the deadline for an answer, which is never
// earlier than the known expiry of the lease.
func (m *Machine) keep(l *entry) {
	if l.keepers++; l.keepers > 1 {
		return
	}
	l.deadline = m.now.add(m.firstAnswer)
	if l.ttl > 0 {
		l.deadline = max(l.deadline, l.renewed.add(l.ttl))
	}
	if l.state != Gone {
		m.move(l, l.state)
	}
}

// Unsubscribe ends a subscription, unless it has already ended.
func (m *Machine) Unsubscribe(now time.Time, s *Subscriber, cause error) {
	m.at(now)
	l := s.lease
	if l == nil {
		return
	}
	m.endSubscribers(l, cause, func(other *Subscriber) bool { return other == s })
	m.reconcile(l)
}

// Revoked records that a lease was revoked.
func (m *Machine) Revoked(now time.Time, id int64) {
	m.at(now)
	m.grants.take(id)
	if l, known := m.leases[id]; known {
		l.ttl = 0
		m.endSubscribers(l, rpctypes.ErrLeaseNotFound, func(*Subscriber) bool { return true })
		m.reconcile(l)
	}
}

// endSubscribers ends the subscriptions of a lease that satisfy which. The caller
// updates the lease's state.
func (m *Machine) endSubscribers(l *entry, cause error, which func(*Subscriber) bool) {
	l.subscribers = slices.DeleteFunc(l.subscribers, func(s *Subscriber) bool {
		if !which(s) {
			return false
		}
		if !s.Once {
			l.keepers--
		}
		s.end(cause)
		return true
	})
	if l.keepers == 0 {
		l.deadline = never
	}
}

// reconcile sets the state of a lease according to its remaining subscribers.
func (m *Machine) reconcile(l *entry) {
	switch {
	case len(l.subscribers) > 0 && l.state == Repeating && !l.repeats():
		m.move(l, Awaiting)
	case len(l.subscribers) > 0:
		m.move(l, l.state) // the deadline may have changed
	case l.state.unanswered():
		m.move(l, Abandoned)
	default:
		m.move(l, Gone)
	}
}

// repeats reports whether a subscriber needs a request after the latest one.
func (l *entry) repeats() bool {
	return slices.ContainsFunc(l.subscribers, func(s *Subscriber) bool { return !s.wants(l) })
}

// Answered processes the answer to a request and returns the renewal. It returns false if
// the answer is no renewal or the expiry of the lease was unknown. An unsolicited answer
// on this stream proves nothing and is dropped.
func (m *Machine) Answered(now time.Time, resp *pb.LeaseKeepAliveResponse) (renewal observe.LeaseRenewal, known bool) {
	m.at(now)
	l := m.leases[resp.ID]
	asked := l != nil && l.state.unanswered()
	if asked {
		m.pace(m.ttlOf(l))
	}
	m.quiet, m.lastErr = m.now, nil
	if !asked {
		return observe.LeaseRenewal{}, false
	}
	if ttl := seconds(resp.TTL); ttl > 0 {
		renewal = observe.LeaseRenewal{ID: l.id, TTL: ttl}
		renewal.Margin, known = l.renewed.add(l.ttl).sub(m.now), l.ttl > 0 // negative if it had expired
		known = m.renew(l, ttl, resp) && known
	} else {
		m.endNotFound(l, resp)
	}
	switch {
	case len(l.subscribers) == 0:
		m.move(l, Gone)
	case l.repeats():
		l.spread = true
		m.move(l, Due)
	default:
		l.due = max(l.sent.add(interval(m.ttlOf(l), l.spread, m.random())), m.now)
		l.spread = false
		m.move(l, Waiting)
	}
	return renewal, known
}

// renew notifies the subscribers that the answer is for, and reports whether there is
// one. If the answer is so late that it proves nothing, the deadline remains that of an
// unknown lease, and the next request is due at once.
func (m *Machine) renew(l *entry, ttl time.Duration, resp *pb.LeaseKeepAliveResponse) (wanted bool) {
	renewed := m.epoch.Add(time.Duration(l.sent))
	once := false
	for _, s := range l.subscribers {
		if !s.wants(l) {
			continue
		}
		l.renewed, l.ttl = l.sent, ttl
		if end := l.sent.add(ttl); l.keepers > 0 && end > m.now {
			l.deadline = end
		}
		s.Sink.Valid(renewed, ttl)
		s.Sink.Deliver(resp)
		once, wanted = once || s.Once, true
	}
	if once {
		m.endSubscribers(l, nil, func(s *Subscriber) bool { return s.Once && s.wants(l) })
	}
	return wanted
}

// endNotFound ends the subscribers that the answer is for: the lease does not
// exist.
func (m *Machine) endNotFound(l *entry, resp *pb.LeaseKeepAliveResponse) {
	l.ttl = 0
	for _, s := range l.subscribers {
		if s.Once && s.wants(l) {
			s.Sink.Deliver(resp)
		}
	}
	m.lose(l, rpctypes.ErrLeaseNotFound, func(s *Subscriber) bool { return s.wants(l) })
}

// lose is endSubscribers for a lease that is gone, or may be, and records the loss.
func (m *Machine) lose(l *entry, cause error, which func(*Subscriber) bool) {
	keepers := l.keepers
	m.endSubscribers(l, cause, which)
	if l.keepers < keepers {
		m.lost = append(m.lost, observe.LeaseLoss{ID: l.id, Err: cause})
	}
}

// TakeLost returns the leases that were lost since the last call.
func (m *Machine) TakeLost() []observe.LeaseLoss {
	lost := m.lost
	m.lost = nil
	return lost
}

// Advance processes the passing of time: it makes leases Due, and ends the keepers
// of leases whose deadline has passed.
func (m *Machine) Advance(now time.Time) {
	m.at(now)
	if _, when := m.waiting.next(); when <= m.now {
		for l, when := m.waiting.next(); l != nil && when <= m.now.add(window(m.ttlOf(l))); l, when = m.waiting.next() {
			l.spread = l.spread || m.phase != open
			m.move(l, Due)
		}
	}
	for _, q := range []*queue{&m.due, &m.sent} {
		for l, when := q.next(); l != nil && when <= m.now; l, when = q.next() {
			m.lose(l, unanswered(m.lastErr), func(s *Subscriber) bool { return !s.Once })
			m.reconcile(l)
		}
	}
}

// Close ends all subscriptions.
func (m *Machine) Close(cause error) {
	for _, l := range m.leases {
		m.endSubscribers(l, cause, func(*Subscriber) bool { return true })
	}
	clear(m.leases)
	m.waiting, m.due, m.sent, m.abandoned = nil, nil, nil, nil
	m.grants = grants{}
	m.phase, m.moveAt, m.oldest = down, never, nil
}

// Wanted reports whether there are leases to keep alive.
func (m *Machine) Wanted() bool { return len(m.leases) > 0 }

// State is the state of a lease in the machine.
type State uint8

const (
	// Waiting says that the lease was renewed, and the next renewal is not due yet.
	Waiting State = iota
	// Due says that a request will be sent as soon as a stream is open.
	Due
	// Awaiting says that a request was sent and is unanswered.
	Awaiting
	// Repeating is Awaiting with a later subscriber that needs another request.
	// When the answer arrives, the lease is Due.
	Repeating
	// Abandoned says that a request is unanswered and the lease has no subscribers.
	// The lease is kept so that its answer is not matched to a later request.
	Abandoned
	// Gone says that the machine does not know the lease, or no longer.
	Gone
)

// unanswered reports whether a request awaits its answer.
func (s State) unanswered() bool { return s == Awaiting || s == Repeating || s == Abandoned }

type phase uint8

const (
	down    phase = iota // no stream
	opening              // it is being opened
	open                 // requests can be sent
)

// queue holds the leases of one state, ordered by the time of their next action. It is a heap in which
// each lease knows its index.
type queue []*entry

var _ heap.Interface = (*queue)(nil)

// next returns the first lease and its time, nil if the queue is empty.
func (q queue) next() (*entry, instant) {
	if len(q) == 0 {
		return nil, never
	}
	return q[0], q[0].when
}

func (q *queue) push(l *entry, when instant) {
	l.when = when
	heap.Push(q, l)
}

func (q *queue) remove(l *entry) { heap.Remove(q, int(l.index)) }

func (q queue) Len() int { return len(q) }

func (q queue) Less(i, j int) bool { return q[i].when < q[j].when }

func (q queue) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].index, q[j].index = int32(i), int32(j)
}

// Push implements heap.Interface.
func (q *queue) Push(l any) {
	last := l.(*entry)
	last.index = int32(len(*q))
	*q = append(*q, last)
}

// Pop implements heap.Interface.
func (q *queue) Pop() any {
	n := len(*q) - 1
	last := (*q)[n]
	(*q)[n] = nil // releases the lease's memory
	*q = (*q)[:n]
	return last
}

// maxGrants bounds the records of leases without keepers, to about 2 MB. Past it
// all records are dropped; such a lease then gets the same time for its first
// answer as an unknown one.
const maxGrants = 1 << 15

// grants records when, and for how long, leases without keepers were granted or last
// renewed. With a record, the first keepalive of a lease has at least the rest of its
// TTL to be answered.
type grants struct {
	byID  map[int64]grant
	sweep int // the size at which expired records are removed
}

type grant struct {
	sent instant
	ttl  time.Duration
}

func (g *grants) add(now instant, id int64, granted grant) {
	if len(g.byID) >= g.sweep {
		for id, old := range g.byID {
			if old.sent.add(old.ttl) <= now {
				delete(g.byID, id)
			}
		}
		if len(g.byID) >= maxGrants {
			clear(g.byID)
		}
		g.sweep = min(2*len(g.byID)+64, maxGrants)
	}
	if g.byID == nil {
		g.byID = make(map[int64]grant)
	}
	g.byID[id] = granted
}

func (g *grants) take(id int64) grant {
	granted := g.byID[id]
	delete(g.byID, id)
	return granted
}
