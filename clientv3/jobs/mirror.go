package jobs

import (
	"context"
	"errors"
	"hash/fnv"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/btree"

	"github.com/quorate/quorate/clientv3/leaderelection"
	"github.com/quorate/quorate/clientv3/store"
	"github.com/quorate/quorate/internal/pause"
)

const (
	// claimDelay, and the time that a claim takes, is how long the first worker has to claim a job before the second may, and
	// so on: so the others see the claim and send none.
	claimDelay = 20 * time.Millisecond
	// lookAhead is how many jobs, for each free worker, are compared to find one whose first worker this is.
	lookAhead = 8
	// wakeAtLeast bounds how long a place waits without looking again.
	wakeAtLeast = time.Minute
)

// entry is a job as this process sees it.
type entry struct {
	id   string
	hash uint64

	state        record
	rev, created int64 // of the state; 0 without one
	claim        int64 // the revision that created it; 0 without one
	lease        int64 // of the claim

	// ready is when the job may be claimed, zero for at once; since is when it first might, as far as this process knows, and
	// held until when it leaves the job alone.
	ready, since, held time.Time
	// taken is set while a place has it, or its claim is being returned. settled is the revision of the
	// last claim that this process has ended: that claim and what it wrote have been overtaken.
	taken   bool
	settled int64
	job     *Job  // while it is handled
	handled int64 // the revision of the last claim that a handler was given
}

// mirror is the queue as this process sees it, and chooses which job is claimed next.
type mirror struct {
	own    int64 // the lease of this process
	config Config
	wake   chan struct{} // the queue has changed
	took   atomic.Int64  // how long the last claim of this process took, in nanoseconds
	late   func(entry)   // is called for a job that this process has claimed and no place has; it causes a call of drop

	mu      sync.Mutex
	entries map[string]*entry
	queue   *btree.BTreeG[*entry] // those that no worker has
	places  map[int64]int         // of each worker, by its lease
	load    map[int64]int         // claims under each lease
}

func newMirror(own int64, config Config, late func(entry)) *mirror {
	return &mirror{
		own: own, config: config, wake: make(chan struct{}, 1), late: late, entries: make(map[string]*entry),
		queue: btree.NewG(32, func(a, b *entry) bool {
			switch {
			case !a.ready.Equal(b.ready):
				return a.ready.Before(b.ready)
			case a.created != b.created:
				return a.created < b.created
			}
			return a.id < b.id
		}),
		places: make(map[int64]int), load: make(map[int64]int),
	}
}

// apply takes over a change of the queue. The error says that the key or its value is none of a queue.
func (m *mirror) apply(ch store.Change[[]byte]) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if ch.Type == store.Synced {
		m.listedLocked()
		return nil
	}
	if ch.Type == store.Deleted {
		ch.ModRevision, ch.Value = 0, []byte("{}")
	}
	switch kind, name, _ := strings.Cut(ch.Key, "/"); kind {
	case workers:
		return m.workerLocked(name, ch)
	case states:
		state, err := parseRecord(ch.Value)
		if err != nil {
			return err
		}
		e := m.entryLocked(name)
		e.state, e.rev, e.created = state, ch.ModRevision, ch.CreateRevision
		m.reconcileLocked(e)
		return nil
	case claims:
		e := m.entryLocked(name)
		m.claimedLocked(e, ch)
		m.reconcileLocked(e)
		return nil
	}
	return errors.New("jobs: the key belongs to no queue")
}

// entryLocked returns the entry of a job, and takes it out of the queue.
func (m *mirror) entryLocked(id string) *entry {
	e := m.entries[id]
	if e == nil {
		h := fnv.New64a()
		_, _ = h.Write([]byte(id))
		e = &entry{id: id, hash: h.Sum64()}
		m.entries[id] = e
	}
	m.queue.Delete(e)
	return e
}

// workerLocked takes over a change of a worker.
func (m *mirror) workerLocked(name string, ch store.Change[[]byte]) error {
	lease, err := strconv.ParseInt(name, 16, 64)
	delete(m.places, lease)
	if err == nil && ch.Type == store.Put {
		places, _, _ := strings.Cut(string(ch.Value), " ") // the name of the worker follows
		m.places[lease], err = strconv.Atoi(places)
	}
	pause.Signal(m.wake)
	return err
}

// listedLocked forgets which claims this process has ended: if the cluster was restored from a backup, some may be there
// again, and revisions may be below theirs. Where it was not, transactions that find a claim ended do nothing.
func (m *mirror) listedLocked() {
	for _, e := range m.entries {
		if e.settled != 0 {
			e.settled = 0
			m.queue.Delete(e)
			m.reconcileLocked(e)
		}
	}
}

// claimedLocked takes over a change of a claim. That of a deleted one has no lease.
func (m *mirror) claimedLocked(e *entry, ch store.Change[[]byte]) {
	was := e.claim
	m.countLocked(e.lease, -1)
	e.claim, e.lease = ch.CreateRevision, int64(ch.Lease)
	m.countLocked(e.lease, 1)
	if j := e.job; j != nil && was == j.rev && e.claim != j.rev && e.settled != j.rev && !j.ending.Load() {
		j.end(leaderelection.ErrKeyDeleted)
	}
}

func (m *mirror) countLocked(lease int64, by int) {
	if m.load[lease] += by; m.load[lease] == 0 || lease == 0 {
		delete(m.load, lease)
	}
}

// reconcileLocked puts an entry into the queue if it may be claimed, lets one be returned if this process has a claim that
// it does not use, and forgets one of a job that is gone.
func (m *mirror) reconcileLocked(e *entry) {
	switch {
	case e.taken:
		return
	case e.claim != 0 && e.lease == m.own && e.claim > e.settled && (e.rev >= e.claim || e.rev == 0):
		e.taken = true // the claim wrote the state, too
		m.late(*e)
		return
	case e.rev == 0 && e.claim == 0:
		delete(m.entries, e.id)
		return
	case e.claim != 0 || e.rev <= e.settled:
		return
	case e.state.NotBefore != 0:
		e.ready = time.UnixMilli(e.state.NotBefore)
	case e.state.Attempts != 0: // its worker was lost
		e.ready = time.Now().Add(m.config.backoff(e.state.Attempts))
	default:
		e.ready = time.Time{}
	}
	e.since = time.Now()
	if e.held.After(e.since) && e.held.After(e.ready) {
		e.ready = e.held
	}
	e.ready = e.ready.Round(0) // one clock orders the queue: times of day have no monotonic reading
	m.queue.ReplaceOrInsert(e)
	pause.Signal(m.wake)
}

// take waits for a job that this process is to claim, and returns what is known of it. It returns
// nil when ctx has ended.
func (m *mirror) take(ctx context.Context) *entry {
	for ctx.Err() == nil {
		e, wait := m.next(time.Now())
		if e != nil {
			return e
		}
		_ = pause.Until(ctx, m.wake, wait)
	}
	return nil
}

// next takes the job that this process is to claim now. If there is none it returns how long to wait.
func (m *mirror) next(now time.Time) (taken *entry, wait time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.dueLocked(now)
	others, step := m.freeLocked(), claimDelay+time.Duration(m.took.Load())
	var best *entry
	bestRank, looked, wait := len(others)+1, 0, wakeAtLeast
	m.queue.Ascend(func(e *entry) bool {
		if d := e.ready.Sub(now); d > 0 {
			wait = min(wait, d)
			return false
		}
		rank := e.rank(m.own, others)
		if d := e.since.Add(time.Duration(rank) * step).Sub(now); d > 0 {
			wait = min(wait, d)
		} else if rank < bestRank {
			best, bestRank = e, rank
		}
		looked++
		return bestRank > 0 && looked < lookAhead*(len(others)+1)
	})
	if best == nil {
		return nil, wait
	}
	m.queue.Delete(best)
	best.taken = true
	known := *best
	return &known, 0
}

// dueLocked puts the jobs whose time has come among those that could be claimed at once.
func (m *mirror) dueLocked(now time.Time) {
	var due []*entry
	m.queue.AscendGreaterOrEqual(&entry{ready: time.Time{}.Add(1)}, func(e *entry) bool {
		if e.ready.After(now) {
			return false
		}
		due = append(due, e)
		return true
	})
	for _, e := range due {
		m.queue.Delete(e)
		if e.ready.After(e.since) {
			e.since = e.ready
		}
		e.ready = time.Time{}
		m.queue.ReplaceOrInsert(e)
	}
}

// freeLocked returns the other workers with a free place.
func (m *mirror) freeLocked() (others []int64) {
	for lease, places := range m.places {
		if lease != m.own && m.load[lease] < places {
			others = append(others, lease)
		}
	}
	return others
}

// rank returns how many of the others claim the job before the worker of a lease. All workers compute
// the same order, which differs from job to job.
func (e *entry) rank(own int64, others []int64) (rank int) {
	weight := mix(e.hash ^ uint64(own))
	for _, lease := range others {
		if mix(e.hash^uint64(lease)) > weight {
			rank++
		}
	}
	return rank
}

// mix spreads the bits of x over all of the result: the finalizer of SplitMix64.
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// running records that a job is handled, so that the loss of its claim ends it.
func (m *mirror) running(j *Job) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.entries[j.ID]
	e.job, e.handled = j, j.rev
}

// settled records that this process has ended a claim.
func (m *mirror) settled(j *Job) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if e := m.entries[j.ID]; e != nil { // nil if Ack outlasts the handler, and the job is gone
		e.settled = j.rev
	}
}

// overtaken records that the state of a job has another revision than the entry. The job is left alone until that is seen.
func (m *mirror) overtaken(e *entry, rev int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if mine := m.entries[e.id]; rev != e.rev {
		mine.settled = max(mine.settled, e.rev)
	}
}

// drop ends what take has begun. The job is left alone until what has happened to it is known.
func (m *mirror) drop(id string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.entries[id]
	e.taken, e.job, e.held = false, nil, time.Now().Add(tryAgain)
	m.reconcileLocked(e)
}
