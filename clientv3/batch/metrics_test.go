package batch

import (
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
)

// counted returns the metrics that are not 0.
func counted(kv *KV) map[string]float64 {
	all := make(map[string]float64)
	for _, m := range kv.Metrics() {
		if m.Value != 0 {
			all[fmt.Sprint(m.Name, m.Labels)] = m.Value
		}
	}
	return all
}

func TestMetrics(t *testing.T) {
	whileReading(t, func(t *testing.T, s *stub, kv *KV, blocker *rpc) {
		for i := range 6 {
			get(t.Context(), kv, fmt.Sprint("k", i/2))
		}
		require.InDelta(t, 6, counted(kv)["quorate.batch.waiting[{kind get}]"], 0)
		blocker.answer()
		s.next(t).fail(rpctypes.ErrPermissionDenied)
		require.Len(t, sizes(t, s, (*rpc).answer), 6)

		put(t.Context(), kv, "blocker", "")
		blocker = s.next(t)
		put(t.Context(), kv, "a", "")
		put(t.Context(), kv, "b", "")
		put(t.Context(), kv, "a", "again")
		s.next(t).answer()
		blocker.answer()
		s.next(t).fail(rpctypes.ErrLeaseNotFound)
		s.next(t).answer()
		s.next(t).answer()
		synctest.Wait()
		require.Equal(t, map[string]float64{
			"quorate.batch.calls[{kind get}]":          7,
			"quorate.batch.rpcs[{size 1} {kind get}]":  7, // six of them are those of the failed one
			"quorate.batch.refused[{kind get}]":        1,
			"quorate.batch.rpcs[{size 16} {kind get}]": 1,
			"quorate.batch.calls[{kind put}]":          4,
			"quorate.batch.rpcs[{size 1} {kind put}]":  4, // two of them are the parts of the refused one
			"quorate.batch.rpcs[{size 4} {kind put}]":  1,
			"quorate.batch.refused[{kind put}]":        1,
		}, counted(kv))
	})
}

func TestOnlyWhatIsSharedHasMetrics(t *testing.T) {
	require.Empty(t, New(newStub(), Config{}).Metrics())
	require.Len(t, New(newStub(), Config{GroupWrites: true}).Metrics(), 2*(3+len(sizeClasses)))
}

func TestSizes(t *testing.T) {
	for callers, want := range map[int]string{
		1: "1", 2: "4", 4: "4", 5: "16", 16: "16", 17: "64", 64: "64", 65: "256", 256: "256", 257: "more", 1 << 20: "more",
	} {
		var c counters
		c.sent(callers)
		for i, n := range c.rpcs {
			assert.Equal(t, sizeClasses[i] == want, n == 1, "%d in %s", callers, sizeClasses[i])
		}
	}
}
