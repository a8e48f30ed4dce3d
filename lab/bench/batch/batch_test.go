// Package batch measures what calls gain that share RPCs, beside those of Quorate and of
// the official client that do not, against one real member. A round has 0.2 s
// of each client; results are medians of the rounds.
//
//	go test ./lab/bench/batch -run '^$' -bench . -benchtime 15x
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
)

const (
	// turn is how long one client is measured at a time.
	turn = 200 * time.Millisecond
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

// contender is a client with its medians.
type contender struct {
	name string
	get  func(ctx context.Context, key string) error
	put  func(ctx context.Context, key string) error
}

func contenders(b *testing.B) []contender {
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

// compare measures the contenders in turns.
func compare(b *testing.B, callers int, operationOf func(contender) operation) {
	all := contenders(b)
	rates := make([][]float64, len(all))
	for b.Loop() {
		for i, c := range all {
			rates[i] = append(rates[i], rate(b, callers, operationOf(c)))
		}
	}
	b.ReportMetric(0, "ns/op")
	medians := make([]float64, len(all))
	for i, c := range all {
		slices.Sort(rates[i])
		medians[i] = rates[i][len(rates[i])/2]
		b.ReportMetric(medians[i], c.name+"/s")
	}
	b.ReportMetric(medians[2]/medians[0], "x-official")
	b.ReportMetric(medians[2]/medians[1], "x-quorate")
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

// BenchmarkHotKey has all callers read one key.
func BenchmarkHotKey(b *testing.B) {
	for _, callers := range []int{1, 64, 1000} {
		b.Run(fmt.Sprint(callers), func(b *testing.B) {
			compare(b, callers, func(c contender) operation {
				return func(ctx context.Context, _ int) error { return c.get(ctx, key[0]) }
			})
		})
	}
}

// BenchmarkDistinctKeys has each caller read a key of its own.
func BenchmarkDistinctKeys(b *testing.B) {
	for _, callers := range []int{1, 64, 1000} {
		b.Run(fmt.Sprint(callers), func(b *testing.B) {
			compare(b, callers, func(c contender) operation {
				return func(ctx context.Context, caller int) error { return c.get(ctx, key[caller]) }
			})
		})
	}
}

// BenchmarkPuts has each caller write a key of its own.
func BenchmarkPuts(b *testing.B) {
	for _, callers := range []int{1, 64, 1000} {
		b.Run(fmt.Sprint(callers), func(b *testing.B) {
			compare(b, callers, func(c contender) operation {
				return func(ctx context.Context, caller int) error { return c.put(ctx, key[caller]) }
			})
		})
	}
}
