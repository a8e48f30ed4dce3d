//go:build !race

// The race detector keeps memory of its own and empties pools.

package cost

import (
	"context"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.etcd.io/etcd/api/v3/version"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/internal/grpctest"
)

// quickKV answers at once, so that the measurement covers the client.
type quickKV struct{ pb.UnimplementedKVServer }

func (quickKV) Range(_ context.Context, req *pb.RangeRequest) (*pb.RangeResponse, error) {
	return &pb.RangeResponse{
		Header: &pb.ResponseHeader{ClusterId: 1, MemberId: 1, Revision: 1, RaftTerm: 1},
		Kvs:    []*mvccpb.KeyValue{{Key: req.Key, Value: make([]byte, 64)}}, Count: 1,
	}, nil
}

// clientsOf returns functions that read a key with the bare stub, and through a client.
func clientsOf(t *testing.T) (bare, quorate func(context.Context) error) {
	address := grpctest.Serve(t, func(s grpc.ServiceRegistrar) { pb.RegisterKVServer(s, quickKV{}) }).String()
	// The stub sends the same header as the client, so that the server does the same work.
	same := manual.NewBuilderWithScheme("bare")
	same.InitialState(resolver.State{Addresses: []resolver.Address{{
		Addr:     address,
		Metadata: &metadata.MD{rpctypes.MetadataClientAPIVersionKey: {version.APIVersion}},
	}}})
	conn, err := grpc.NewClient("bare:///", grpc.WithResolvers(same), grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{address}})
	require.NoError(t, err)
	t.Cleanup(func() { client.Close() })
	stub, req := pb.NewKVClient(conn), &pb.RangeRequest{Key: []byte("key")}
	// The options are the client's, allocated once as there.
	opts := []grpc.CallOption{grpc.WaitForReady(true), grpc.MaxCallSendMsgSize(2 << 20), grpc.MaxCallRecvMsgSize(math.MaxInt32)}
	bare = func(ctx context.Context) error {
		_, err := stub.Range(ctx, req, opts...)
		return err
	}
	quorate = func(ctx context.Context) error {
		_, err := client.Get(ctx, "key")
		return err
	}
	require.NoError(t, bare(t.Context()))
	require.NoError(t, quorate(t.Context()))
	return bare, quorate
}

// TestAllocationsOfAGet bounds what a get through a client allocates more than one with the bare
// stub. docs/performance.md says where.
func TestAllocationsOfAGet(t *testing.T) {
	const bound, rounds, runs = 6, 5, 400
	bare, quorate := clientsOf(t)
	allocated := func(get func(context.Context) error) float64 {
		return testing.AllocsPerRun(runs, func() {
			if err := get(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	// The server and gRPC's flow control allocate too, and not always equally; the round with the
	// smallest difference counts.
	least := math.Inf(1)
	for range rounds {
		least = min(least, allocated(quorate)-allocated(bare))
	}
	t.Logf("%v more", least)
	require.LessOrEqual(t, least, float64(bound))
}

// TestHeapOfAClient bounds the additional heap of a client that has made a call over that of a
// gRPC connection that has; the server's share is the same for both.
func TestHeapOfAClient(t *testing.T) {
	const clients, bound = 50, 40 << 10
	address := grpctest.Serve(t, func(s grpc.ServiceRegistrar) { pb.RegisterKVServer(s, quickKV{}) }).String()
	bare := heapOf(t, clients, func() (io.Closer, error) {
		conn, err := grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(insecure.NewCredentials()))
		require.NoError(t, err)
		_, err = pb.NewKVClient(conn).Range(t.Context(), &pb.RangeRequest{Key: []byte("key")}, grpc.WaitForReady(true))
		return conn, err
	})
	quorate := heapOf(t, clients, func() (io.Closer, error) {
		client, err := clientv3.New(clientv3.Config{Endpoints: []string{address}})
		require.NoError(t, err)
		_, err = client.Get(t.Context(), "key")
		return client, err
	})
	t.Logf("%d bytes, a gRPC connection %d", quorate, bare)
	require.LessOrEqual(t, quorate-bare, bound)
}

// heapOf returns how much heap each of n clients takes.
func heapOf(t *testing.T, n int, open func() (io.Closer, error)) int {
	all := make([]io.Closer, n)
	first, err := open() // allocates what is created once
	require.NoError(t, err)
	before := heap()
	for i := range all {
		all[i], err = open()
		require.NoError(t, err)
	}
	after := heap()
	for _, c := range append(all, first) {
		require.NoError(t, c.Close())
	}
	return (after - before) / n
}

func heap() int {
	var m runtime.MemStats
	for range 2 { // the second collection empties pools
		runtime.GC()
	}
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

// TestFunctionsOfAnOperation bounds how many functions of this module a repeated operation enters. The
// official client enters 17 of its own for a get, 12 for a put, 10 for an event.
func TestFunctionsOfAnOperation(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds a program with counters")
	}
	dir := t.TempDir()
	const module = "github.com/quorate/quorate/"
	out, err := exec.Command("go", "run", "-cover", "-covermode=atomic", "-coverpkg="+module+"...", "./testdata/ways", dir).CombinedOutput()
	require.NoError(t, err, "%s", out)
	for name, bound := range map[string]int{"get": 86, "put": 92, "event": 35} {
		rounds, err := filepath.Glob(filepath.Join(dir, name, "*"))
		require.NoError(t, err)
		require.NotEmpty(t, rounds)
		all := filepath.Join(dir, name+" in all") // what every round enters: a timer fires in some only
		require.NoError(t, os.Mkdir(all, 0o700))
		out, err := exec.Command("go", "tool", "covdata", "intersect", "-i="+strings.Join(rounds, ","), "-o="+all).CombinedOutput()
		require.NoError(t, err, "%s", out)
		out, err = exec.Command("go", "tool", "covdata", "func", "-i="+all).Output()
		require.NoError(t, err)
		var entered []string
		for line := range strings.Lines(string(out)) {
			f := strings.Fields(strings.TrimPrefix(line, module))
			ofServer := strings.Contains(line, "fakeetcd") || strings.Contains(line, "clientv3/internal/semantics")
			if len(f) == 3 && f[0] != "total" && f[2] != "0.0%" && !ofServer && !strings.HasPrefix(f[0], "clientv3/internal/cost/testdata") {
				entered = append(entered, f[0]+" "+f[1])
			}
		}
		t.Logf("%s enters %d functions:\n%s", name, len(entered), strings.Join(entered, "\n"))
		assert.NotEmpty(t, entered, name)
		assert.LessOrEqual(t, len(entered), bound, name)
	}
}
