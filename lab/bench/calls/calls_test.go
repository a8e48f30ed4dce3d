// Package calls measures what a call costs through a client: Quorate, the official client and a
// minimal one beside the bare stub on a gRPC connection, on one real member. A round has 0.1 s of
// each, in random order; results are medians of the rounds.
//
//	go test ./lab/bench/calls -run '^$' -bench . -benchtime 41x
//
// The unit x-bare is the throughput by that of the bare stub in the same round; allocs-added
// and ns-added are what a call allocates more in this process, and the CPU time that it
// takes more there. The member is a process of its own.
package calls

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	official "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/lab"
)

// turn is how long one client is measured at a time.
const turn = 100 * time.Millisecond

const key = "/bench/calls/key"

var value = string(make([]byte, 64))

func TestMain(m *testing.M) {
	lab.Main()
	m.Run()
}

// contender is a way to make calls. The first is the bare stub.
type contender struct {
	name     string
	get, put func(ctx context.Context) error
}

func contenders(b *testing.B) []contender {
	cluster, err := lab.Start(b.Context(), lab.Config{Members: 1, Dir: b.TempDir()})
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, cluster.Close()) })
	endpoint := cluster.Members()[0].DirectEndpoint()
	theirs, err := official.New(official.Config{Endpoints: []string{endpoint}, Logger: zap.NewNop()})
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, theirs.Close()) })
	ours, err := clientv3.New(clientv3.Config{Endpoints: []string{endpoint}, Logger: zap.NewNop()})
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, ours.Close()) })
	all := []contender{
		bare(b, endpoint),
		minimal(b, "minimal", endpoint, false),
		minimal(b, "minimal+defaults", endpoint, true),
		{
			"official",
			func(ctx context.Context) error { _, err := theirs.Get(ctx, key); return err },
			func(ctx context.Context) error { _, err := theirs.Put(ctx, key, value); return err },
		},
		{
			"quorate",
			func(ctx context.Context) error { _, err := ours.Get(ctx, key); return err },
			func(ctx context.Context) error { _, err := ours.Put(ctx, key, value); return err },
		},
	}
	for _, c := range all {
		require.NoError(b, c.put(b.Context()))
		require.NoError(b, c.get(b.Context()))
	}
	return all
}

// callOptions are those of both clients.
var callOptions = []grpc.CallOption{grpc.WaitForReady(true), grpc.MaxCallSendMsgSize(2 << 20), grpc.MaxCallRecvMsgSize(math.MaxInt32)}

// bare makes calls with requests and call options that are made once, on a connection with gRPC's
// defaults.
func bare(b *testing.B, endpoint string) contender {
	conn, err := grpc.NewClient(strings.TrimPrefix(endpoint, "http://"), grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, conn.Close()) })
	stub := pb.NewKVClient(conn)
	get, put := &pb.RangeRequest{Key: []byte(key)}, &pb.PutRequest{Key: []byte(key), Value: []byte(value)}
	return contender{
		"bare",
		func(ctx context.Context) error {
			_, err := stub.Range(ctx, get, callOptions...)
			return err
		},
		func(ctx context.Context) error {
			_, err := stub.Put(ctx, put, callOptions...)
			return err
		},
	}
}

// sample is what one turn showed.
type sample struct{ rate, allocs, cpu float64 }

// cpu returns the CPU time of this process, in nanoseconds.
func cpu(b *testing.B) float64 {
	var u unix.Rusage
	require.NoError(b, unix.Getrusage(unix.RUSAGE_SELF, &u))
	return float64(u.Utime.Nano() + u.Stime.Nano())
}

// measure has callers make calls for one turn.
func measure(b *testing.B, callers int, do func(context.Context) error) sample {
	var done atomic.Int64
	var all sync.WaitGroup
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	began, used := time.Now(), cpu(b)
	for range callers {
		all.Go(func() {
			ctx, cancel := context.WithCancel(b.Context())
			defer cancel()
			n := 0
			for ; time.Since(began) < turn; n++ {
				if err := do(ctx); err != nil {
					b.Error(err)
					break
				}
			}
			done.Add(int64(n))
		})
	}
	all.Wait()
	took := time.Since(began)
	used = cpu(b) - used
	runtime.ReadMemStats(&after)
	n := float64(done.Load())
	return sample{n / took.Seconds(), float64(after.Mallocs-before.Mallocs) / n, used / n}
}

func compare(b *testing.B, callers int, call func(contender) func(context.Context) error) {
	all := contenders(b)
	rates := make([]float64, 0, b.N)
	speeds, allocs, cpus := make([][]float64, len(all)), make([][]float64, len(all)), make([][]float64, len(all))
	round := make([]sample, len(all))
	for b.Loop() {
		for _, i := range rand.Perm(len(all)) {
			round[i] = measure(b, callers, call(all[i]))
		}
		rates = append(rates, round[0].rate)
		for i, s := range round {
			speeds[i] = append(speeds[i], s.rate/round[0].rate)
			allocs[i] = append(allocs[i], s.allocs-round[0].allocs)
			cpus[i] = append(cpus[i], s.cpu-round[0].cpu)
		}
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(median(rates), "bare/s")
	for i, c := range all[1:] {
		b.ReportMetric(median(speeds[i+1]), c.name+"-x-bare")
		b.ReportMetric(median(allocs[i+1]), c.name+"-allocs-added")
		b.ReportMetric(median(cpus[i+1]), c.name+"-ns-added")
	}
}

func median(of []float64) float64 {
	slices.Sort(of)
	return of[len(of)/2]
}

func BenchmarkGet(b *testing.B) {
	for _, callers := range []int{1, 64} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) {
			compare(b, callers, func(c contender) func(context.Context) error { return c.get })
		})
	}
}

func BenchmarkPut(b *testing.B) {
	for _, callers := range []int{1, 64} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) {
			compare(b, callers, func(c contender) func(context.Context) error { return c.put })
		})
	}
}
