package jobs_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/internal/clienttest"
	. "github.com/quorate/quorate/clientv3/jobs"
	"github.com/quorate/quorate/clientv3/mock/fakeetcd"
)

// period is a time in which a handler had a job.
type period struct {
	process     int
	attempt     int
	revision    int64
	began, left time.Time
}

// history is what handlers saw.
type history struct {
	mu      sync.Mutex
	periods map[string][]period
	acked   map[string]int // acknowledgements that returned nil
	draw    func(n int) int

	handled, ended int
}

func (h *history) add(id string, p period) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.periods[id] = append(h.periods[id], p)
	h.handled++
}

// check reports holders that overlap, and revisions and attempts that do not grow.
func (h *history) check(t *testing.T) {
	t.Helper()
	for id, periods := range h.periods {
		slices.SortFunc(periods, func(a, b period) int { return a.began.Compare(b.began) })
		for i := range periods[1:] {
			a, b := periods[i], periods[i+1]
			assert.False(t, b.began.Before(a.left), "%s: %+v and %+v overlap", id, a, b)
			assert.Greater(t, b.revision, a.revision, id)
			assert.GreaterOrEqual(t, b.attempt, a.attempt, id)
		}
	}
}

// Processes are cut off, leases expire, answers are lost or late, processes end politely, and handlers fail: each job is
// acknowledged once or is a dead letter, and no two holders of one overlap.
func TestJobsUnderFaults(t *testing.T) {
	for seed := range uint64(3) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) { jobsUnderFaults(t, seed) })
	}
}

func jobsUnderFaults(t *testing.T, seed uint64) {
	const processes, places, jobs, maxAttempts = 4, 3, 60, 6
	withRig(t, func(t *testing.T, r *rig) {
		random := rand.New(rand.NewPCG(seed, 1))
		var mu sync.Mutex
		var calm atomic.Bool
		draw := func(n int) int {
			mu.Lock()
			defer mu.Unlock()
			return random.IntN(n)
		}
		r.On("Txn", func(call *fakeetcd.Call) {
			if calm.Load() {
				return
			}
			switch draw(40) {
			case 1: // the answer is lost
				_, _ = call.Execute()
				call.BreakConn()
			case 2: // the request is lost
				call.BreakConn()
			case 3: // it is executed late, perhaps after it was given up
				time.Sleep(time.Duration(draw(8000)) * time.Millisecond)
				_, _ = call.Execute()
			}
		})
		h := &history{periods: make(map[string][]period), acked: make(map[string]int), draw: draw}
		cfg := Config{MaxAttempts: maxAttempts, MinBackoff: 100 * time.Millisecond, MaxBackoff: 2 * time.Second, TTL: 6 * time.Second}
		var all []*process
		var works []*working
		for i := range processes {
			p := r.process(t, cfg)
			all = append(all, p)
			works = append(works, p.work(t, places, h.handler(i)))
		}
		producer, tries := r.process(t, cfg), make(map[string]int)
		for i := range jobs {
			id := fmt.Sprint("job-", i)
			for { // until it is known to be there
				tries[id]++
				_, err := producer.Enqueue(t.Context(), fmt.Sprint(i), WithID(id))
				if err == nil || errors.Is(err, ErrExists) {
					break
				}
			}
			victim, pause := all[draw(processes)], time.Duration(draw(400))*time.Millisecond
			switch draw(12) {
			case 0:
				victim.Cut()
				time.AfterFunc(time.Second+50*pause, victim.Heal) // up to 21 s, and a lease lives for 6 s
			case 1:
				n := slices.Index(all, victim)
				works[n].end(t)
				works[n] = victim.work(t, places, h.handler(n))
			}
			time.Sleep(pause)
		}
		calm.Store(true)
		for _, p := range all {
			p.Heal()
		}
		counts := producer.settled(t)
		for _, w := range works {
			w.end(t)
		}
		dead := clienttest.Must(producer.DeadLetters(t.Context(), 0))
		require.Len(t, dead, int(counts.Dead))
		for i := range jobs {
			id := fmt.Sprint("job-", i)
			written, least, most := r.PutCount("sent/"+id), 1, tries[id]
			if slices.Contains(dead, id) {
				least, most = 0, most-1
			}
			assert.True(t, least <= written && written <= most, "%s was written %d times", id, written)
			assert.LessOrEqual(t, h.acked[id], most, id)
		}
		// A late request of Enqueue may have added the job again.
		maps.DeleteFunc(h.periods, func(id string, _ []period) bool { return tries[id] > 1 })
		h.check(t)
		t.Logf("%d jobs, %d times in the hands of a handler, %d contexts that ended early, %d dead letters", jobs, h.handled, h.ended, len(dead))
		for id, periods := range h.periods {
			assert.LessOrEqual(t, periods[len(periods)-1].attempt, maxAttempts, id)
		}
	})
}

// handler works for some time, and then fails, or acknowledges its job with a write.
func (h *history) handler(process int) Handler {
	return func(ctx context.Context, job *Job) (err error) {
		began := time.Now()
		defer func() { h.add(job.ID, period{process, job.Attempt, job.Revision(), began, time.Now()}) }()
		work := time.Duration(h.draw(3000)) * time.Millisecond
		select {
		case <-time.After(work):
		case <-ctx.Done():
			h.mu.Lock()
			h.ended++
			h.mu.Unlock()
			time.Sleep(time.Second) // within the margin
			return ctx.Err()
		}
		if job.Payload[len(job.Payload)-1] == '7' || h.draw(5) == 0 {
			return errFailed
		}
		if err := job.Ack(ctx, clientv3.OpPut("sent/"+job.ID, job.Payload)); err != nil {
			return err
		}
		h.mu.Lock()
		defer h.mu.Unlock()
		h.acked[job.ID]++
		return nil
	}
}
