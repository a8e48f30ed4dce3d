package health

import (
	"sync"
	"sync/atomic"
	"time"
)

const (
	// latencyBlock is how many samples a block holds, and latencyBlocks how many blocks
	// are remembered: the latest 151 to 200 samples. That is about the least from which
	// one in a hundred can be told, and a class that becomes faster is known as such
	// after 200 calls.
	latencyBlock  = 50
	latencyBlocks = 4
	// learnt is how many samples a class needs before its own figures are used.
	learnt = 20

	// hedgeNum/hedgeDen is how many times P99 a hedge waits for. After P99 itself one
	// call in a hundred would be hedged while nothing is wrong, and more where the
	// estimate errs.
	hedgeNum, hedgeDen = 3, 2
	// minHedge is twice the 10 ms that etcd allows a disk for the slowest hundredth of
	// its writes. What is faster than that is not worth a second call.
	minHedge = 20 * time.Millisecond
	// unlearntHedge is a little less than the 300 ms after which etcd logs a request as
	// slow (--warning-unary-request-duration).
	unlearntHedge = 250 * time.Millisecond
	// maxHedge keeps a class usable whose figures come from an outage.
	maxHedge = 2 * time.Second

	// suspectFactor is twice that of hedges: a suspicion costs a probe, and turns other
	// calls away.
	suspectFactor = 3
	// minSuspect is what etcd takes for slow when it applies a request
	// (--warning-apply-duration).
	minSuspect = 100 * time.Millisecond
	// unlearntSuspect is a little more than etcd's 300 ms.
	unlearntSuspect = 400 * time.Millisecond
	// maxSuspect with two probe rounds that are missed finds a silent endpoint in two
	// seconds, whatever its calls were like before.
	maxSuspect = 1500 * time.Millisecond

	// longCall is less than maxSuspect/usualFactor: the mean of shorter calls lifts no ceiling.
	longCall = 250 * time.Millisecond
	// usualFactor lifts the ceilings for classes whose calls always take long: of
	// latencies that are distributed exponentially, 0.7 % exceed five times their mean.
	usualFactor = 5
)

// Latency learns how long the calls of one class take, and from that when to hedge one
// and when its silence is suspicious. The zero value has learnt nothing and is ready for
// use. Its methods may be called from any goroutine. None allocates; only Observe locks, and
// that for the few samples which move an estimate.
//
// It remembers the longest two of each 50 samples, for the latest 151 to 200 samples. Its
// estimate is the second longest of these. Whatever the distribution, the next of n
// samples that are alike exceeds the second longest of the others with a probability of
// 2/(n+1): the estimate is the 98.9th percentile on average. An outlier, however long,
// does not move it. Two do, so that it follows at once when calls become slower; when they
// become faster it takes 200 of them.
type Latency struct {
	p99     atomic.Int64 // the estimate, in nanoseconds
	mean    atomic.Int64 // of the samples that are remembered, in nanoseconds; late by up to a block
	samples atomic.Int64

	// Of the block that is being filled, in nanoseconds:
	second atomic.Int64 // the second longest
	sum    atomic.Int64

	mu     sync.Mutex
	full   int64 // how many blocks have been filled
	blocks [latencyBlocks]block
}

// block is what is kept of some samples. The empty block is its zero value.
type block struct {
	longest, second time.Duration
	sum             time.Duration // once it is full
}

// join returns the block of the samples of both.
func (b block) join(o block) block {
	if o.longest > b.longest {
		b, o = o, b
	}
	b.second = max(b.second, o.longest)
	b.sum += o.sum
	return b
}

// Observe notes that a call was answered after d. Negative durations count as 0.
//
// Calls that failed because of a fault say nothing of how long calls usually take, and
// should not be noted.
func (l *Latency) Observe(d time.Duration) {
	d = max(d, 0)
	n := l.samples.Add(1)
	if d <= time.Duration(l.second.Load()) && d < longCall && n%latencyBlock > 1 {
		l.sum.Add(int64(d)) // neither of the longest two, nor the first or last of its block
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
	*current = current.join(block{longest: d})
	l.second.Store(int64(current.second))

	var all block
	for _, b := range l.blocks {
		all = all.join(b)
	}
	estimate := all.second
	if n < latencyBlock {
		// The second longest of so few would be exceeded too often.
		estimate = all.longest
	}
	l.p99.Store(int64(estimate))
	l.mean.Store((int64(all.sum) + sum) / remembered(n))
}

// remembered returns how many of n samples are.
func remembered(n int64) int64 {
	return min((n-1)/latencyBlock, latencyBlocks-1)*latencyBlock + (n-1)%latencyBlock + 1
}

// Samples returns how many calls were observed.
func (l *Latency) Samples() int { return int(l.samples.Load()) }

// Learnt reports whether enough calls were observed, 20, to judge others by them.
func (l *Latency) Learnt() bool { return l.samples.Load() >= learnt }

// P99 returns about the 99th percentile of the latest 200 samples, 0 if there were none.
func (l *Latency) P99() time.Duration { return time.Duration(l.p99.Load()) }

// HedgeAfter returns how long to wait for an answer before the call is sent to another
// endpoint as well: 1.5 times P99, but 20 ms at least and 2 s at most; 250 ms for a class
// that is not learnt. While nothing is wrong, less than one call in a hundred takes
// longer.
//
// The ceiling is never below five times the mean, so that calls which always take long
// are not all hedged.
func (l *Latency) HedgeAfter() time.Duration {
	if !l.Learnt() {
		return unlearntHedge
	}
	return l.between(minHedge, l.P99()*hedgeNum/hedgeDen, maxHedge)
}

// SuspectAfter returns after how long the silence of a call makes its endpoint
// suspicious: 3 times P99, but 100 ms at least and 1.5 s at most; 400 ms for a class that
// is not learnt. The ceiling is lifted as that of HedgeAfter is.
func (l *Latency) SuspectAfter() time.Duration {
	if !l.Learnt() {
		return unlearntSuspect
	}
	return l.between(minSuspect, l.P99()*suspectFactor, maxSuspect)
}

func (l *Latency) between(floor, d, ceiling time.Duration) time.Duration {
	ceiling = max(ceiling, time.Duration(l.mean.Load())*usualFactor)
	return min(max(d, floor), ceiling)
}
