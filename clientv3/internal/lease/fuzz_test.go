package lease

import (
	"context"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
)

// fuzzLeases is small, so that steps often hit the same lease.
const fuzzLeases = 4

// maxSteps bounds the length of a sequence. Longer ones have found nothing more.
const maxSteps = 200

// request is a request that the server has received.
type request struct {
	id   int64
	sent time.Time
}

// fuzzed is a machine with a simulated server and subscribers, and what is known of each lease independently of the
// machine.
type fuzzed struct {
	*rig
	probes   []*probe
	stream   []request           // unanswered on the open stream
	proven   map[int64]time.Time // until when each lease is proven to live
	earliest map[int64]time.Time // when each may be renewed again
}

// FuzzMachine checks what the machine guarantees in every order of events:
//
//   - no subscriber is notified of a lease that lives longer than TTL after the sending of a
//     request that was answered,
//   - every subscriber is closed once, and gets nothing after that,
//   - on one stream, no request is sent while another one of the same lease is
//     unanswered, nor before it is due,
//   - the queues are in order, and every lease is in the one of its state.
//
// Two bytes are one step: what happens, and to whom or for how long.
func FuzzMachine(f *testing.F) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 0))
		steps := make([]byte, 2*maxSteps)
		for i := range steps {
			steps[i] = byte(rng.Uint32())
		}
		f.Add(steps)
	}
	f.Fuzz(func(t *testing.T, steps []byte) {
		w := &fuzzed{rig: newRig(t), proven: map[int64]time.Time{}, earliest: map[int64]time.Time{}}
		steps = steps[:min(len(steps), 2*maxSteps)]
		for len(steps) > 1 {
			w.step(steps[0], steps[1])
			w.check()
			w.checkProbes()
			steps = steps[2:]
		}
		w.m.Close(context.Canceled)
		for _, p := range w.probes {
			require.Equal(t, 1, p.closed)
		}
	})
}

func (w *fuzzed) step(what, n byte) {
	id := int64(n % fuzzLeases)
	w.drawn = float64(n) / 255
	switch what % 13 {
	case 0:
		w.join(id, Subscriber{RequireLeader: n&4 != 0})
	case 1:
		w.join(id, Subscriber{Once: true})
	case 2:
		if len(w.probes) > 0 {
			w.leave(w.probes[int(n)%len(w.probes)], context.Canceled)
		}
	case 3:
		w.connect()
	case 4:
		w.send(int(n%fuzzLeases) + 1)
	case 5:
		w.answerNext(int(n))
	case 6:
		w.lose(errBroken)
	case 7:
		w.pass(time.Duration(n) * ttl / 500)
	case 8:
		w.lose(rpctypes.ErrGRPCPermissionDenied)
		w.m.Refused(w.now, rpctypes.ErrGRPCPermissionDenied)
	case 9:
		w.m.Granted(w.now, w.now, id, int64(n))
		w.proven[id] = later(w.proven[id], w.now.Add(time.Duration(n)*time.Second))
	case 10:
		w.m.Revoked(w.now, id)
	case 11:
		w.m.Leaderless(w.now)
	case 12:
		if err := w.m.Silent(w.now); err != nil {
			require.NotEmpty(w.t, w.stream, "only a stream with unanswered requests can be silent")
			w.lose(err)
		}
	}
}

func (w *fuzzed) join(id int64, s Subscriber) {
	known := w.state(id) != Gone && w.state(id) != Abandoned
	w.probes = append(w.probes, w.subscribe(id, s))
	if s.Once || !known {
		delete(w.earliest, id)
	}
}

func (w *fuzzed) send(n int) {
	for _, id := range w.takeUpTo(n) {
		for _, r := range w.stream {
			require.NotEqual(w.t, r.id, id, "another request of the lease is unanswered")
		}
		if due, ok := w.earliest[id]; ok {
			require.False(w.t, w.now.Before(due), "lease %d is sent before it is due", id)
		}
		delete(w.earliest, id)
		w.stream = append(w.stream, request{id, w.now})
	}
}

// answerNext usually answers the oldest request; proxies may reorder answers.
func (w *fuzzed) answerNext(n int) {
	if len(w.stream) == 0 {
		w.answer(int64(n%fuzzLeases), time.Duration(n)*time.Second) // unsolicited
		return
	}
	i := n % 16 / 12 % len(w.stream)
	r := w.stream[i]
	w.stream = append(w.stream[:i:i], w.stream[i+1:]...)
	ttl := time.Duration(n/16) * 4 * time.Second
	if ttl > 0 {
		w.proven[r.id] = later(w.proven[r.id], r.sent.Add(ttl))
	}
	repeats := w.state(r.id) == Repeating
	w.answer(r.id, ttl)
	if ttl > 0 && !repeats {
		w.earliest[r.id] = r.sent.Add(ttl/6 - window(ttl))
	}
}

func (w *fuzzed) lose(err error) {
	w.stream = nil
	clear(w.earliest)
	w.m.Lost(w.now, err)
}

func later(a, b time.Time) time.Time { return slices.MaxFunc([]time.Time{a, b}, time.Time.Compare) }

func (w *fuzzed) checkProbes() {
	for _, p := range w.probes {
		if p.closed > 1 || (p.closed == 1) != (p.lease == nil) {
			w.t.Fatalf("closed %d times", p.closed)
		}
		if p.validUntil.After(w.proven[p.id]) {
			w.t.Fatalf("lease %d is claimed to live until %v, proven is %v", p.id, p.validUntil, w.proven[p.id])
		}
	}
}
