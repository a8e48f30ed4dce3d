package bench

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.uber.org/goleak"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/quorate/quorate/internal/fatal"
	"github.com/quorate/quorate/lab"
	"github.com/quorate/quorate/lab/internal/stats"
)

// TestMain runs the benchmarks, or what they have in processes of their own.
func TestMain(m *testing.M) {
	lab.Main()
	processes := map[string]func() error{"put": putAll, "fleet": serveFleet}
	if len(os.Args) > 1 && processes[os.Args[1]] != nil {
		if err := processes[os.Args[1]](); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

// figures are what one sample shows, by names that end with their units.
type figures map[string]float64

// sampleTimeout bounds one sample. The slowest, watches that the official client creates or resumes, take half a minute.
const sampleTimeout = 5 * time.Minute

// sampled takes a sample, which an error ends: see package fatal.
func sampled(tb testing.TB, sample func(context.Context) figures) (f figures) {
	ctx, cancel := context.WithTimeout(tb.Context(), sampleTimeout)
	defer cancel()
	require.NoError(tb, fatal.Catch(func() { f = sample(ctx) }))
	return f
}

// compare takes samples of both clients in turn, so that what else happens on the machine hits both.
func compare(b *testing.B, sample func(context.Context, kind) figures) {
	samples := map[string][]float64{}
	for b.Loop() {
		for _, k := range kinds {
			for metric, value := range sampled(b, func(ctx context.Context) figures { return sample(ctx, k) }) {
				samples[metric+"-"+k.name] = append(samples[metric+"-"+k.name], value)
			}
		}
	}
	b.ReportMetric(0, "ns/op")
	for metric, values := range samples {
		b.ReportMetric(stats.Of(values).Median, metric)
	}
}

// prefix begins all keys that are put.
const prefix = "bench/"

func key(i int) string { return fmt.Sprintf("%s%05d", prefix, i) }

// puts makes n puts to 1,000 keys, one revision each, in a process of its own, so that it has no part in what is measured.
func puts(ctx context.Context, m *lab.Member, n, size int) error {
	cmd := exec.CommandContext(ctx, fatal.OK(os.Executable()), "put", m.DirectEndpoint(), strconv.Itoa(n), strconv.Itoa(size))
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("puts: %w: %s", err, out)
	}
	return nil
}

// putAll is the process that makes puts.
func putAll() error {
	var address string
	var n, size int
	if _, err := fmt.Sscanf(fmt.Sprint(os.Args[2:]), "[http://%s %d %d]", &address, &n, &size); err != nil {
		return err
	}
	conn, err := grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	kv, value := pb.NewKVClient(conn), bytes.Repeat([]byte("v"), size)
	work, ctx := errgroup.WithContext(context.Background())
	work.SetLimit(16)
	for i := range n {
		work.Go(func() error {
			_, err := kv.Put(ctx, &pb.PutRequest{Key: []byte(key(i % 1000)), Value: value})
			return err
		})
	}
	return work.Wait()
}
