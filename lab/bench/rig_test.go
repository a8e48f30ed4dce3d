package bench

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/quorate/quorate/lab"
	"github.com/quorate/quorate/lab/bench/cases"
	"github.com/quorate/quorate/lab/link"
)

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
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	kv := pb.NewKVClient(r.cluster.Members()[0].Conn())
	var next atomic.Int64
	var work sync.WaitGroup
	for range writers {
		work.Go(func() {
			for i := int(next.Add(1)) - 1; i < n && ctx.Err() == nil; i = int(next.Add(1)) - 1 {
				key := fmt.Appendf(nil, "%s%05d", cases.Prefix, i%keys)
				if _, err := kv.Put(ctx, &pb.PutRequest{Key: key, Value: r.value}); err != nil {
					fail(err)
				}
			}
		})
	}
	work.Wait()
	return context.Cause(ctx)
}

// kill ends the member at the address after it has given up the lead.
func (r *rig) kill(ctx context.Context, address string) error {
	var doomed, other *lab.Member
	for _, m := range r.cluster.Members() {
		if r.cluster.ClientLink(m).Addr() == address {
			doomed = m
		} else {
			other = m
		}
	}
	if doomed == nil || other == nil {
		return fmt.Errorf("no member at %s that can be spared", address)
	}
	leader, err := r.cluster.Leader(ctx)
	if err != nil {
		return err
	}
	if leader == doomed {
		if err := r.cluster.MoveLeader(ctx, other); err != nil {
			return err
		}
	}
	return doomed.Kill()
}
