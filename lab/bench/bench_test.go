package bench

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.uber.org/goleak"
	"golang.org/x/sync/errgroup"

	"github.com/quorate/quorate/lab"
	"github.com/quorate/quorate/lab/bench/cases"
	"github.com/quorate/quorate/lab/internal/stats"
	"github.com/quorate/quorate/lab/link"
	"github.com/quorate/quorate/lab/servers"
)

// built compiles the program that is measured, once.
var built = sync.OnceValues(func() (servers.Program, error) {
	return servers.BuildProgram(context.Background(), "./bench/program", servers.Clients)
})

func TestMain(m *testing.M) {
	lab.Main()
	goleak.VerifyTestMain(m)
}

// BenchmarkClients runs all cases.
func BenchmarkClients(b *testing.B) {
	for _, c := range cases.All() {
		b.Run(c.Name, func(b *testing.B) { compare(b, c) })
	}
}

// compare takes samples of both clients in turn. Who begins changes from one round to the next, so that what else happens on
// the machine hits both.
func compare(b *testing.B, c cases.Case) {
	samples := make(map[servers.Client][]cases.Sample)
	for round := 0; b.Loop(); round++ {
		if c.MaxRepeat > 0 && round >= c.MaxRepeat {
			continue
		}
		order := slices.Clone(servers.Clients)
		if round%2 == 1 {
			slices.Reverse(order)
		}
		for _, name := range order {
			sample, err := take(b.Context(), c, name, testing.Short())
			require.NoError(b, err, name)
			samples[name] = append(samples[name], sample)
		}
	}
	b.ReportMetric(0, "ns/op")
	for metric := range samples[servers.Quorate][0] {
		theirs, ours := median(samples[servers.Official], metric), median(samples[servers.Quorate], metric)
		b.ReportMetric(theirs, metric+"-official")
		b.ReportMetric(ours, metric+"-quorate")
		if theirs != 0 {
			b.ReportMetric(ours/theirs, metric+"-ratio")
		}
	}
}

func median(samples []cases.Sample, metric string) float64 {
	values := make([]float64, 0, len(samples))
	for _, s := range samples {
		values = append(values, s[metric])
	}
	return stats.Of(values).Median
}

// take runs a case once, on a new cluster.
func take(ctx context.Context, c cases.Case, client servers.Client, short bool) (sample cases.Sample, err error) {
	size := c.Size
	if short {
		size = c.ShortSize
	}
	r, err := newRig(ctx, c, size)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.close()) }()
	return measure(ctx, client, cases.Job{Case: c.Name, Site: r.site(size, short)}, r)
}

const (
	// writers is how many callers make puts.
	writers = 16
	// keys is how many keys the puts are made to.
	keys = 1_000
	// valueSize is the size in bytes of the values that are put, unless the case says another.
	valueSize = 100
)

// rig is a cluster that is made ready for a case. It serves the Control of the case.
type rig struct {
	cluster   *lab.Cluster
	endpoints []string
	revision  int64 // of the first put of the backlog
	value     []byte
}

// newRig starts a cluster for c. It must be closed.
func newRig(ctx context.Context, c cases.Case, size int) (*rig, error) {
	cluster, err := lab.Start(ctx, lab.Config{Members: c.Members})
	if err != nil {
		return nil, err
	}
	r := &rig{cluster: cluster, value: bytes.Repeat([]byte("v"), cmp.Or(c.ValueSize, valueSize))}
	for _, m := range cluster.Members() {
		if c.Latency == 0 {
			r.endpoints = append(r.endpoints, m.DirectEndpoint())
			continue
		}
		cluster.ClientLink(m).Delay(link.Both, c.Latency)
		r.endpoints = append(r.endpoints, m.Endpoint())
	}
	if c.Backlog {
		if err := r.fill(ctx, size); err != nil {
			return nil, errors.Join(err, cluster.Close())
		}
	}
	return r, nil
}

func (r *rig) close() error { return r.cluster.Close() }

func (r *rig) site(size int, short bool) cases.Site {
	return cases.Site{Endpoints: r.endpoints, Size: size, Short: short, Revision: r.revision}
}

// ServeHTTP does what a case asks for.
func (r *rig) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	act, about, _ := strings.Cut(strings.TrimPrefix(req.URL.Path, "/"), "/")
	n, err := strconv.Atoi(about)
	switch {
	case act == cases.KillAct:
		err = r.kill(req.Context(), about)
	case act == cases.PutAct && err == nil:
		err = r.put(req.Context(), n)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
}

// fill makes the backlog.
func (r *rig) fill(ctx context.Context, n int) error {
	status, err := r.cluster.Members()[0].Status(ctx)
	if err != nil {
		return err
	}
	r.revision = status.GetHeader().GetRevision() + 1
	return r.put(ctx, n)
}

// put makes n puts, one revision each, over the lab's own connection.
func (r *rig) put(ctx context.Context, n int) error {
	kv := pb.NewKVClient(r.cluster.Members()[0].Conn())
	work, ctx := errgroup.WithContext(ctx)
	work.SetLimit(writers)
	for i := range n {
		work.Go(func() error {
			_, err := kv.Put(ctx, &pb.PutRequest{Key: fmt.Appendf(nil, "%s%05d", cases.Prefix, i%keys), Value: r.value})
			return err
		})
	}
	return work.Wait()
}

// kill ends the member at the address after it has given up the lead.
func (r *rig) kill(ctx context.Context, address string) error {
	var victim, other *lab.Member
	for _, m := range r.cluster.Members() {
		if r.cluster.ClientLink(m).Addr() == address {
			victim = m
		} else {
			other = m
		}
	}
	if victim == nil || other == nil {
		return fmt.Errorf("no member at %s that can be spared", address)
	}
	leader, err := r.cluster.Leader(ctx)
	if err != nil {
		return err
	}
	if leader == victim {
		if err := r.cluster.MoveLeader(ctx, other); err != nil {
			return err
		}
	}
	return victim.Kill()
}

// sampleTimeout bounds one sample. The slowest, a resumption by the official
// client, takes about a minute.
const sampleTimeout = 5 * time.Minute

// measure runs a job in a process of its own, with control for its requests.
func measure(ctx context.Context, client servers.Client, j cases.Job, control http.Handler) (sample cases.Sample, err error) {
	program, err := built()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, sampleTimeout, fmt.Errorf("no result after %v", sampleTimeout))
	defer cancel()
	server := httptest.NewServer(control)
	defer server.Close()
	j.Control = cases.Control(server.URL)
	err = program.Run(ctx, client, j, &sample, "case")
	return sample, err
}
