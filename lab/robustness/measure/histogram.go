package measure

import (
	"math/bits"
	"time"
)

// Durations are counted in nanoseconds, in buckets that split each power of two
// into subBuckets equal parts. A bucket is therefore at most 1/subBuckets of its
// value wide, which makes a quantile at most 0.8 % too high and never too low.
const (
	subBits    = 7
	subBuckets = 1 << subBits
)

// histogram counts durations in bounded memory: 8 bytes for each bucket up to
// the longest duration, 27 kB for ten seconds.
type histogram struct {
	counts []int64
	total  int64
	max    time.Duration
}

func (h *histogram) add(d time.Duration) {
	d = max(d, 0)
	i := bucket(uint64(d))
	if i >= len(h.counts) {
		h.counts = append(h.counts, make([]int64, i+1-len(h.counts))...)
	}
	h.counts[i]++
	h.total++
	h.max = max(h.max, d)
}

// quantile returns the duration that a fraction q of the samples do not exceed,
// as the nearest-rank method defines it; 0 without samples.
func (h *histogram) quantile(q float64) time.Duration {
	if h.total == 0 {
		return 0
	}
	rank := int64(q * float64(h.total))
	if float64(rank) < q*float64(h.total) {
		rank++
	}
	rank = max(rank, 1)
	for i, n := range h.counts {
		if rank -= n; rank <= 0 {
			return min(time.Duration(bucketTop(i)), h.max)
		}
	}
	return h.max
}

// bucket returns the index of the bucket that v falls into.
func bucket(v uint64) int {
	shift := max(0, bits.Len64(v)-subBits-1)
	return shift<<subBits + int(v>>shift)
}

// bucketTop returns the highest value that falls into a bucket.
func bucketTop(i int) uint64 {
	shift := max(0, i>>subBits-1)
	low := uint64(i - shift<<subBits)
	return (low+1)<<shift - 1
}
