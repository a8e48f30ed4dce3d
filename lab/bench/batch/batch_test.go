// Package batch measures what calls gain that share RPCs, beside those of Quorate and of
// the official client that do not, against one real member. A round has 0.1 s
// of each client; results are medians of the rounds.
//
//	go test ./lab/bench/batch -run '^$' -bench . -benchtime 25x
package batch

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	official "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/batch"
	"github.com/quorate/quorate/lab"
	"github.com/quorate/quorate/lab/link"
)

const (
	// turn is how long one client is measured at a time.
	turn = 100 * time.Millisecond
	// keys are how many keys there are.
	keys = 1000
)

var value = string(make([]byte, 64))

func TestMain(m *testing.M) {
	lab.Main()
	m.Run()
}

var key = func() (names [keys]string) {
	for i := range names {
		names[i] = fmt.Sprintf("/bench/batch/%d", i)
	}
	return names
}()

// operation is one call of a caller.
type operation func(ctx context.Context, caller int) error

// contender is a client that is measured.
type contender struct {
	name string
	get  func(ctx context.Context, key string) error
	put  func(ctx context.Context, key string) error
}

func contenders(b *testing.B, oneWay time.Duration) []contender {
	cluster, err := lab.Start(b.Context(), lab.Config{Members: 1, Dir: b.TempDir()})
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, cluster.Close()) })
	theirs, err := official.New(official.Config{Endpoints: cluster.Endpoints(), Logger: zap.NewNop()})
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, theirs.Close()) })
	ours, err := clientv3.New(clientv3.Config{Endpoints: cluster.Endpoints(), Logger: zap.NewNop()})
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, ours.Close()) })
	sharing := batch.New(ours, batch.Config{JoinReads: true, GroupWrites: true})
	for i := range keys {
		_, err := ours.Put(b.Context(), key[i], value)
		require.NoError(b, err)
	}
	cluster.ClientLink(cluster.Members()[0]).Set(link.Both, link.Condition{Delay: oneWay})
	return []contender{
		{
			"official",
			func(ctx context.Context, key string) error { _, err := theirs.Get(ctx, key); return err },
			func(ctx context.Context, key string) error { _, err := theirs.Put(ctx, key, value); return err },
		},
		of("quorate", ours),
		of("batch", sharing),
	}
}

func of(name string, kv clientv3.KV) contender {
	return contender{
		name,
		func(ctx context.Context, key string) error { _, err := kv.Get(ctx, key); return err },
		func(ctx context.Context, key string) error { _, err := kv.Put(ctx, key, value); return err },
	}
}

// compare measures the contenders in turns. A ratio is the median of those of the rounds, in which
// the contenders meet the same other work of the machine.
func compare(b *testing.B, oneWay time.Duration, callers int, operationOf func(contender) operation) {
	all := contenders(b, oneWay)
	rates := make([][]float64, len(all))
	for b.Loop() {
		for i, c := range all {
			rates[i] = append(rates[i], rate(b, callers, operationOf(c)))
		}
	}
	b.ReportMetric(0, "ns/op")
	sharing := len(all) - 1
	for i, c := range all {
		b.ReportMetric(median(rates[i]), c.name+"/s")
		if i == sharing {
			break
		}
		ratios := make([]float64, len(rates[i]))
		for round := range ratios {
			ratios[round] = rates[sharing][round] / rates[i][round]
		}
		b.ReportMetric(median(ratios), "x-"+c.name)
	}
}

func median(values []float64) float64 {
	return slices.Sorted(slices.Values(values))[len(values)/2]
}

// rate returns how many operations a second callers make.
func rate(b *testing.B, callers int, do operation) float64 {
	var done atomic.Int64
	var all sync.WaitGroup
	began := time.Now()
	for caller := range callers {
		all.Go(func() {
			for time.Since(began) < turn {
				if err := do(b.Context(), caller); err != nil {
					b.Error(err)
					return
				}
				done.Add(1)
			}
		})
	}
	all.Wait()
	return float64(done.Load()) / time.Since(began).Seconds()
}

// BenchmarkFar has each caller read and write a key of its own over a round trip of 10 ms.
func BenchmarkFar(b *testing.B) {
	for _, callers := range []int{1, 16, 64, 1000} {
		b.Run(fmt.Sprint("get/", callers), func(b *testing.B) {
			compare(b, 5*time.Millisecond, callers, func(c contender) operation {
				return func(ctx context.Context, caller int) error { return c.get(ctx, key[caller]) }
			})
		})
		b.Run(fmt.Sprint("put/", callers), func(b *testing.B) {
			compare(b, 5*time.Millisecond, callers, func(c contender) operation {
				return func(ctx context.Context, caller int) error { return c.put(ctx, key[caller]) }
			})
		})
	}
}

// BenchmarkHotKey has all callers read one key.
func BenchmarkHotKey(b *testing.B) {
	for _, callers := range []int{1, 64, 1000} {
		b.Run(fmt.Sprint(callers), func(b *testing.B) {
			compare(b, 0, callers, func(c contender) operation {
				return func(ctx context.Context, _ int) error { return c.get(ctx, key[0]) }
			})
		})
	}
}

// BenchmarkDistinctKeys has each caller read a key of its own.
func BenchmarkDistinctKeys(b *testing.B) {
	for _, callers := range []int{1, 64, 1000} {
		b.Run(fmt.Sprint(callers), func(b *testing.B) {
			compare(b, 0, callers, func(c contender) operation {
				return func(ctx context.Context, caller int) error { return c.get(ctx, key[caller]) }
			})
		})
	}
}

// BenchmarkPuts has each caller write a key of its own.
func BenchmarkPuts(b *testing.B) {
	for _, callers := range []int{1, 64, 1000} {
		b.Run(fmt.Sprint(callers), func(b *testing.B) {
			compare(b, 0, callers, func(c contender) operation {
				return func(ctx context.Context, caller int) error { return c.put(ctx, key[caller]) }
			})
		})
	}
}
