package health

import (
	"cmp"
	"math"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// latencyBlock is how many samples a block holds, and latencyBlocks how many blocks
	// are kept: the latest 151 to 200 samples. That is about the minimum for estimating a
	// 99th percentile, and the estimate follows a shape that becomes faster after 200
	// calls.
	latencyBlock  = 50
	latencyBlocks = 4
	// learnt is how many samples a shape needs before its own estimates are used.
	learnt = 20

	// hedgeNum/hedgeDen is how many times P99 a hedge waits for. After P99 itself one
	// call in a hundred would be hedged while nothing is wrong, and more where the
	// estimate errs.
	hedgeNum, hedgeDen = 3, 2
	// minHedge is twice the 10 ms that etcd recommends as a disk's 99th percentile of
	// fsync latency. Faster calls are not worth hedging.
	minHedge = 20 * time.Millisecond
	// unlearntHedge is slightly less than the 300 ms after which etcd logs a request as
	// slow (--warning-unary-request-duration).
	unlearntHedge = 250 * time.Millisecond
	// maxHedge bounds estimates that were learnt during an outage.
	maxHedge = 2 * time.Second

	// suspectFactor is twice the factor of hedges: a suspicion costs a probe and diverts
	// other calls.
	suspectFactor = 3
	// minSuspect is the time after which etcd warns that applying a request is slow
	// (--warning-apply-duration).
	minSuspect = 100 * time.Millisecond
	// unlearntSuspect is a little more than etcd's 300 ms.
	unlearntSuspect = 400 * time.Millisecond
	// maxSuspect plus two missed probe rounds detects a silent endpoint within two
	// seconds, whatever its latencies were.
	maxSuspect = 1500 * time.Millisecond

	// longCall is less than maxSuspect/usualFactor: the mean of shorter calls raises no
	// maximum.
	longCall = 250 * time.Millisecond
	// usualFactor raises the maxima for shapes whose calls always take long: of
	// exponentially distributed latencies, 0.7 % exceed five times their mean.
	usualFactor = 5
)

// Latency estimates the latency of calls of one shape, and from that when to hedge a call
// and when its silence is suspicious. The zero value is ready to use. Its methods may be
// called concurrently. None allocates; only Observe takes a lock, and only for the few
// samples that change the estimate.
//
// It keeps the longest two of each 50 samples, for the latest 151 to 200 samples. The
// estimate is the second longest of these. For any distribution, a new sample exceeds the
// second longest of n earlier ones with probability 2/(n+1): on average the estimate is
// the 98.9th percentile. One outlier does not change it. Two do, so that it follows at
// once when calls become slower; when they become faster, it follows after 200 calls.
type Latency struct {
	p99     atomic.Int64 // the estimate, in nanoseconds
	mean    atomic.Int64 // of the kept samples, in nanoseconds; up to a block behind
	samples atomic.Int64
	// hedge and suspect follow from these; they are 0 until the shape is learnt.
	hedge, suspect atomic.Int64

	// Of the block in progress, in nanoseconds:
	second atomic.Int64 // the second longest
	sum    atomic.Int64

	mu     sync.Mutex
	full   int64 // how many blocks have been filled
	blocks [latencyBlocks]block
}

// block summarizes some samples. The zero value is an empty block.
type block struct {
	longest, second time.Duration
	joined          int           // samples that took the lock
	sum             time.Duration // once it is full
}

// join merges two blocks.
func (b block) join(o block) block {
	if o.longest > b.longest {
		b, o = o, b
	}
	b.second = max(b.second, o.longest)
	b.joined += o.joined
	b.sum += o.sum
	return b
}

// Observe records that a call was answered after d. Negative durations count as 0.
//
// Calls that failed because of a fault should not be recorded.
func (l *Latency) Observe(d time.Duration) {
	d = max(d, 0)
	n := l.samples.Add(1)
	if d <= time.Duration(l.second.Load()) && d < longCall && n%latencyBlock > 1 && n > learnt {
		l.sum.Add(int64(d)) // not among the longest two, the first or last of its block, or the first ones of all
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.full < (n-1)/latencyBlock {
		l.blocks[l.full%latencyBlocks].sum = time.Duration(l.sum.Swap(0))
		l.full++
		l.blocks[l.full%latencyBlocks] = block{}
	}
	sum := l.sum.Add(int64(d))
	current := &l.blocks[l.full%latencyBlocks]
	*current = current.join(block{longest: d, joined: 1})
	l.second.Store(int64(current.second))

	var all block
	for _, b := range l.blocks {
		all = all.join(b)
	}
	estimate := all.second
	if n < latencyBlock || all.joined < 2 {
		// With so few samples the second longest would be exceeded too often. There is no
		// second one if the samples of all other blocks still wait for the lock.
		estimate = all.longest
	}
	l.p99.Store(int64(estimate))
	l.mean.Store((int64(all.sum) + sum) / remembered(n))
	if n >= learnt {
		l.hedge.Store(l.between(minHedge, estimate*hedgeNum/hedgeDen, maxHedge))
		l.suspect.Store(l.between(minSuspect, estimate*suspectFactor, maxSuspect))
	}
}

// remembered returns how many of n samples are kept.
func remembered(n int64) int64 {
	return min((n-1)/latencyBlock, latencyBlocks-1)*latencyBlock + (n-1)%latencyBlock + 1
}

// P99 returns approximately the 99th percentile of the latest 200 samples, 0 if there are
// none.
func (l *Latency) P99() time.Duration { return time.Duration(l.p99.Load()) }

// HedgeAfter returns how long to wait for a response before hedging the call: 1.5 times
// P99, at least 20 ms and at most 2 s; 250 ms for a shape that is not learnt. Without a
// fault, less than one call in a hundred takes longer.
//
// The maximum is never below five times the mean, so that calls that always take long are
// not all hedged.
func (l *Latency) HedgeAfter() time.Duration {
	return cmp.Or(time.Duration(l.hedge.Load()), unlearntHedge)
}

// SuspectAfter returns after how long the silence of a call makes its endpoint
// suspicious: 3 times P99, at least 100 ms and at most 1.5 s; 400 ms for a shape that is
// not learnt. The maximum is raised as in HedgeAfter.
func (l *Latency) SuspectAfter() time.Duration {
	return cmp.Or(time.Duration(l.suspect.Load()), unlearntSuspect)
}

func (l *Latency) between(floor, d, ceiling time.Duration) int64 {
	ceiling = max(ceiling, time.Duration(l.mean.Load())*usualFactor)
	return int64(min(max(d, floor), ceiling))
}

const (
	// paceWindow is the time constant of the average. A pause of one second among steady
	// messages at most doubles the threshold.
	paceWindow = 5 * time.Second
	// paceFactor is how many typical pauses a silence must last. If messages arrive at
	// random, one pause in 400 is that long.
	paceFactor = 4
	// minPace is longer than the pauses of a busy process or host.
	minPace = 250 * time.Millisecond
	// MaxPace is the silence after which every stream is due for a check: the minimum
	// interval of gRPC's keepalive.
	MaxPace = 10 * time.Second
)

// Pace estimates the usual pause between two messages of a stream. The zero value is
// ready to use.
//
// The estimate is the average of the logarithms of the pauses, weighted by their length: the
// typical pause at a random moment. A stream that sends a burst every second has a pace of
// about a second, regardless of the size of the bursts; a stream that sends 50 messages per
// second, and paused once for a second, keeps a pace of about 30 ms.
//
// Only the reader of the stream may call Observe; the other methods may be called
// concurrently. None locks or allocates.
type Pace struct {
	last      Stamp
	logGap    atomic.Uint64 // the average, as bits of a float64: log2 of nanoseconds
	weight    float64       // of the pauses in the average, up to 1; Observe's alone
	checks    atomic.Int64  // of the present silence
	checkedAt Stamp
}

// Observe records a message.
func (p *Pace) Observe(at time.Time) {
	gap := p.last.Since(at)
	p.last.Set(at)
	if p.checks.Load() != 0 {
		p.checks.Store(0)
	}
	if gap <= 0 || gap == math.MaxInt64 {
		return
	}
	// The average of a new stream covers only its pauses so far, so that two messages in
	// quick succession at the start have no lasting effect.
	weight := -math.Expm1(-float64(gap) / float64(paceWindow))
	p.weight += weight * (1 - p.weight)
	average := math.Float64frombits(p.logGap.Load())
	average += weight / p.weight * (math.Log2(float64(gap)) - average)
	p.logGap.Store(math.Float64bits(average))
}

// Checked records a check of the present silence. The time until its next check doubles, up
// to 10 s.
func (p *Pace) Checked(at time.Time) {
	p.checks.Add(1)
	p.checkedAt.Set(at)
}

// DueAt returns when to check the present silence: four typical pauses after the latest
// message, at least 250 ms and at most 10 s. A stream that was opened at start and has
// sent fewer than two messages has no pace, and is due after 10 s.
func (p *Pace) DueAt(start time.Time) time.Time {
	after := float64(MaxPace)
	if log := p.logGap.Load(); log != 0 {
		after = max(float64(minPace), paceFactor*math.Exp2(math.Float64frombits(log)))
	}
	since := start
	if last := p.last.Time(); last.After(since) {
		since = last
	}
	if n := p.checks.Load(); n > 0 {
		after = math.Ldexp(after, int(min(n, 16)))
		if at := p.checkedAt.Time(); at.After(since) {
			since = at
		}
	}
	return since.Add(time.Duration(min(after, float64(MaxPace))))
}

// Silence returns how long before t the latest message arrived; a very long time if none
// did.
func (p *Pace) Silence(t time.Time) time.Duration { return p.last.Since(t) }
