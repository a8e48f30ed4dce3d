package kuberesolver_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const (
	// changes is how many times it is measured when a change is seen.
	changes = 60
	// seenWithin is ten times what is promised of the median, because the machine may be
	// busy.
	seenWithin = 10 * 100 * time.Millisecond
)

// A change is seen within 100 ms of the request that makes it, in the median.
func changeSeen(t *testing.T, s *scene) {
	delays := measure(t, s, s.watch(t), changes)
	t.Logf("a change is seen after %v", delays)
	require.Less(t, delays.quantile(0.5), seenWithin)
}

// delays are how long changes took to be seen, in order.
type delays []time.Duration

func (d delays) quantile(q float64) time.Duration { return d[int(q*float64(len(d)-1))] }

func (d delays) String() string {
	rounded := func(q float64) time.Duration { return d.quantile(q).Round(100 * time.Microsecond) }
	return fmt.Sprintf("p50 %v, p90 %v, max %v of %d", rounded(0.5), rounded(0.9), rounded(1), len(d))
}

// measure makes n changes, one after the other, and returns how long each took from the
// time when the request was sent to the time when the resolver published it.
func measure(t *testing.T, s *scene, w *recorder, n int) delays {
	t.Helper()
	s.set(t, s.slice("a", pods(7, 1)...))
	w.awaitList(t, at(pods(7, 1)...)...)
	var d delays
	for _, address := range pods(8, n) {
		sent := time.Now()
		s.set(t, s.slice("a", address))
		w.awaitList(t, at(address)...)
		all := w.all()
		d = append(d, all[len(all)-1].at.Sub(sent))
	}
	slices.Sort(d)
	return d
}
