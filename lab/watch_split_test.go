package lab_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	quorate "github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/internal/grpctest"
	"github.com/quorate/quorate/lab"
	"github.com/quorate/quorate/lab/internal/etcd34"
	"github.com/quorate/quorate/lab/internal/labtest"
)

// TestOnlyProvenServersGetParts counts the watchers that one watch asks for while it is 5,500 revisions behind. From 5,000 on, it
// is split.
func TestOnlyProvenServersGetParts(t *testing.T) {
	const backlog = 5_500
	behind := func(t *testing.T, binary string) (cluster *lab.Cluster, first int64) {
		cluster = start(t, lab.Config{Members: 1, Binary: binary})
		return cluster, putMany(t, dial(t, cluster), backlog)
	}
	newest, first := behind(t, "")
	for _, test := range []struct {
		name    string
		binary  func(etcd34.TB) string
		proxy   bool
		disable bool
		split   bool
	}{
		{name: "etcd 3.7", split: true},
		{name: "etcd 3.7, switched off", disable: true},
		{name: "etcd 3.4, which answers progress requests too early", binary: etcd34.Path},
		{name: "grpc-proxy", proxy: true},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			cluster, first := newest, first
			if test.binary != nil {
				cluster, first = behind(t, test.binary(t))
			}
			endpoints := cluster.Endpoints()
			if test.proxy {
				endpoints = []string{startProxy(t, cluster).Endpoint()}
			}
			var creates atomic.Int32
			c := labtest.Client(t, quorate.Config{
				Endpoints: endpoints, DisableSplitReplay: test.disable,
				DialOptions: []grpc.DialOption{grpc.WithChainStreamInterceptor(countCreates(&creates))},
			})

			w := c.Watch(grpctest.Within(t, 2*soon), "k/", quorate.WithPrefix(), quorate.WithRev(first))
			for next := first; next < first+backlog; {
				resp, open := <-w
				require.True(t, open)
				require.NoError(t, resp.Err())
				for _, event := range resp.Events {
					require.Equal(t, next, event.Kv.ModRevision)
					next++
				}
			}
			if test.split {
				assert.Greater(t, creates.Load(), int32(2))
			} else {
				assert.EqualValues(t, 1, creates.Load())
			}
		})
	}
}

// putMany puts n keys, and returns the first revision.
func putMany(t *testing.T, c *clientv3.Client, n int) int64 {
	t.Helper()
	ctx := grpctest.Within(t, 2*soon)
	resp, err := c.Put(ctx, "before", "")
	require.NoError(t, err)
	var writers sync.WaitGroup
	for writer := range 50 {
		writers.Go(func() {
			for i := writer; i < n; i += 50 {
				if _, err := c.Put(ctx, fmt.Sprintf("k/%d", i), ""); !assert.NoError(t, err) {
					return
				}
			}
		})
	}
	writers.Wait()
	return resp.Header.Revision + 1
}

// countCreates counts the creates on watch streams.
func countCreates(creates *atomic.Int32) grpc.StreamClientInterceptor {
	return func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, streamer grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
		stream, err := streamer(ctx, desc, cc, method, opts...)
		return &createCounter{stream, creates}, err
	}
}

type createCounter struct {
	grpc.ClientStream
	creates *atomic.Int32
}

func (s *createCounter) SendMsg(m any) error {
	if req, ok := m.(*pb.WatchRequest); ok && req.GetCreateRequest() != nil {
		s.creates.Add(1)
	}
	return s.ClientStream.SendMsg(m)
}
