package kubernetes_test

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/internal/clienttest"
	"github.com/quorate/quorate/clientv3/kubernetes"
	"github.com/quorate/quorate/clientv3/mock/fakeetcd"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// start returns a client of an etcd that holds nothing.
func start(t *testing.T) (*fakeetcd.Cluster, *kubernetes.Client) {
	t.Helper()
	cluster := clienttest.Start(t, 1)
	c := clienttest.Must(kubernetes.New(clientv3.Config{Endpoints: cluster.Endpoints(), DialOptions: cluster.DialOptions()}))
	t.Cleanup(func() { c.Close() })
	return cluster, c
}

// put writes keys, one revision each, from revision 2 on.
func put(t *testing.T, cluster *fakeetcd.Cluster, keys ...string) {
	t.Helper()
	for _, key := range keys {
		clienttest.Put(t, cluster, key, "value of "+key)
	}
}

func requireEqual(t *testing.T, want, got any) {
	t.Helper()
	require.Empty(t, cmp.Diff(want, got, protocmp.Transform()))
}

func TestNewReportsTheConfig(t *testing.T) {
	c, err := kubernetes.New(clientv3.Config{})
	require.Equal(t, clientv3.ErrNoAvailableEndpoints, err)
	require.Nil(t, c)
}

func TestGet(t *testing.T) {
	cluster, c := start(t)
	put(t, cluster, "k", "k", "other") // revisions 2, 3, 4
	second := &mvccpb.KeyValue{
		Key: []byte("k"), Value: []byte("value of k"), CreateRevision: 2, ModRevision: 3, Version: 2,
	}
	first := proto.Clone(second).(*mvccpb.KeyValue)
	first.ModRevision, first.Version = 2, 1

	for name, tt := range map[string]struct {
		key      string
		revision int64
		want     kubernetes.GetResponse
		err      error
	}{
		"latest":       {"k", 0, kubernetes.GetResponse{KV: second, Revision: 4}, nil},
		"at revision":  {"k", 2, kubernetes.GetResponse{KV: first, Revision: 4}, nil},
		"missing":      {"nothing", 0, kubernetes.GetResponse{Revision: 4}, nil},
		"not a prefix": {"o", 0, kubernetes.GetResponse{Revision: 4}, nil},
		"future":       {"k", 5, kubernetes.GetResponse{}, rpctypes.ErrFutureRev},
		"no key":       {"", 0, kubernetes.GetResponse{}, rpctypes.ErrEmptyKey},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := c.Kubernetes.Get(t.Context(), tt.key, kubernetes.GetOptions{Revision: tt.revision})
			require.Equal(t, tt.err, err)
			requireEqual(t, tt.want, got)
		})
	}
	require.NoError(t, cluster.Compact(3))
	_, err := c.Get(t.Context(), "k", kubernetes.GetOptions{Revision: 2})
	require.Equal(t, rpctypes.ErrCompacted, err)
}

func TestList(t *testing.T) {
	cluster, c := start(t)
	put(t, cluster, "/a/1", "/a/2", "/a/3", "/b/1", "\x01", "\xff\xff/1")
	for name, tt := range map[string]struct {
		prefix string
		opts   kubernetes.ListOptions
		want   []string
		count  int64
		err    error
	}{
		"prefix":               {"/a/", kubernetes.ListOptions{}, []string{"/a/1", "/a/2", "/a/3"}, 3, nil},
		"nothing":              {"/c/", kubernetes.ListOptions{}, nil, 0, nil},
		"no prefix":            {"", kubernetes.ListOptions{}, []string{"\x01", "/a/1", "/a/2", "/a/3", "/b/1", "\xff\xff/1"}, 6, nil},
		"no prefix, limit":     {"", kubernetes.ListOptions{Limit: 2}, []string{"\x01", "/a/1"}, 6, nil},
		"no prefix, page":      {"", kubernetes.ListOptions{Continue: "/a/3\x00"}, []string{"/b/1", "\xff\xff/1"}, 2, nil},
		"prefix without end":   {"\xff\xff", kubernetes.ListOptions{}, []string{"\xff\xff/1"}, 1, nil},
		"limit":                {"/a/", kubernetes.ListOptions{Limit: 2}, []string{"/a/1", "/a/2"}, 3, nil},
		"next page":            {"/a/", kubernetes.ListOptions{Limit: 2, Continue: "/a/2\x00"}, []string{"/a/3"}, 1, nil},
		"page after the last":  {"/a/", kubernetes.ListOptions{Continue: "/a/3\x00"}, nil, 0, nil},
		"page before the list": {"/b/", kubernetes.ListOptions{Continue: "/a/2\x00"}, []string{"/b/1"}, 1, nil},
		"page beyond the list": {"/a/", kubernetes.ListOptions{Continue: "/b/1\x00"}, nil, 0, nil},
		"at revision":          {"/a/", kubernetes.ListOptions{Revision: 3}, []string{"/a/1", "/a/2"}, 2, nil},
		"future":               {"/a/", kubernetes.ListOptions{Revision: 100}, nil, 0, rpctypes.ErrFutureRev},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := c.Kubernetes.List(t.Context(), tt.prefix, tt.opts)
			require.Equal(t, tt.err, err)
			if tt.err != nil {
				requireEqual(t, kubernetes.ListResponse{}, got)
				return
			}
			var keys []string
			for _, kv := range got.Kvs {
				keys = append(keys, string(kv.Key))
			}
			require.Equal(t, tt.want, keys)
			require.Equal(t, tt.count, got.Count)
			require.Equal(t, cluster.Revision(), got.Revision)
		})
	}
}

func TestCount(t *testing.T) {
	cluster, c := start(t)
	put(t, cluster, "/a/1", "/a/2", "/b/1")
	for prefix, want := range map[string]int64{"/a/": 2, "/c/": 0, "": 3} {
		got := clienttest.Must(c.Kubernetes.Count(t.Context(), prefix, kubernetes.CountOptions{}))
		require.Equal(t, want, got, "prefix %q", prefix)
	}
}

func TestOptimisticPut(t *testing.T) {
	for name, tt := range map[string]struct {
		before   []string // keys that are written first, from revision 2 on
		expected int64
		opts     kubernetes.PutOptions
		want     kubernetes.PutResponse
	}{
		"create":                    {nil, 0, kubernetes.PutOptions{}, kubernetes.PutResponse{Succeeded: true, Revision: 2}},
		"create, GetOnFailure":      {nil, 0, kubernetes.PutOptions{GetOnFailure: true}, kubernetes.PutResponse{Succeeded: true, Revision: 2}},
		"update":                    {[]string{"k"}, 2, kubernetes.PutOptions{}, kubernetes.PutResponse{Succeeded: true, Revision: 3}},
		"exists":                    {[]string{"k"}, 0, kubernetes.PutOptions{}, kubernetes.PutResponse{Revision: 2}},
		"exists, GetOnFailure":      {[]string{"k"}, 0, kubernetes.PutOptions{GetOnFailure: true}, kubernetes.PutResponse{KV: written(2, 2, 1), Revision: 2}},
		"modified":                  {[]string{"k", "k", "x"}, 2, kubernetes.PutOptions{}, kubernetes.PutResponse{Revision: 4}},
		"modified, GetOnFailure":    {[]string{"k", "k", "x"}, 2, kubernetes.PutOptions{GetOnFailure: true}, kubernetes.PutResponse{KV: written(2, 3, 2), Revision: 4}},
		"no such key":               {[]string{"x"}, 2, kubernetes.PutOptions{}, kubernetes.PutResponse{Revision: 2}},
		"no such key, GetOnFailure": {[]string{"x"}, 2, kubernetes.PutOptions{GetOnFailure: true}, kubernetes.PutResponse{Revision: 2}},
	} {
		t.Run(name, func(t *testing.T) {
			cluster, c := start(t)
			put(t, cluster, tt.before...)
			got := clienttest.Must(c.Kubernetes.OptimisticPut(t.Context(), "k", []byte("new"), tt.expected, tt.opts))
			requireEqual(t, tt.want, got)
			if kv := cluster.Get("k"); tt.want.Succeeded {
				require.Equal(t, "new", string(kv.Value))
				require.Equal(t, tt.want.Revision, kv.ModRevision)
			} else {
				require.NotEqual(t, "new", string(kv.GetValue()))
			}
		})
	}
}

// written is the key that put has written.
func written(created, modified, version int64) *mvccpb.KeyValue {
	return &mvccpb.KeyValue{
		Key: []byte("k"), Value: []byte("value of k"),
		CreateRevision: created, ModRevision: modified, Version: version,
	}
}

func TestOptimisticPutWithLease(t *testing.T) {
	cluster, c := start(t)
	lease := clienttest.Must(c.Grant(t.Context(), 100))
	resp := clienttest.Must(c.Kubernetes.OptimisticPut(t.Context(), "k", nil, 0, kubernetes.PutOptions{LeaseID: lease.ID}))
	require.True(t, resp.Succeeded)
	require.Equal(t, int64(lease.ID), cluster.Get("k").Lease)
	clienttest.Must(c.Kubernetes.OptimisticPut(t.Context(), "k", nil, resp.Revision, kubernetes.PutOptions{}))
	require.Zero(t, cluster.Get("k").Lease, "a put without lease detaches it")
	_, err := c.Kubernetes.OptimisticPut(t.Context(), "other", nil, 0, kubernetes.PutOptions{LeaseID: 12345})
	require.Equal(t, rpctypes.ErrLeaseNotFound, err)
}

func TestOptimisticDelete(t *testing.T) {
	for name, tt := range map[string]struct {
		before   []string
		expected int64
		get      bool
		want     kubernetes.DeleteResponse
	}{
		"delete":                    {[]string{"k"}, 2, false, kubernetes.DeleteResponse{Succeeded: true, Revision: 3}},
		"delete, GetOnFailure":      {[]string{"k"}, 2, true, kubernetes.DeleteResponse{Succeeded: true, Revision: 3}},
		"modified":                  {[]string{"k", "k"}, 2, false, kubernetes.DeleteResponse{Revision: 3}},
		"modified, GetOnFailure":    {[]string{"k", "k"}, 2, true, kubernetes.DeleteResponse{KV: written(2, 3, 2), Revision: 3}},
		"no such key, GetOnFailure": {[]string{"x"}, 2, true, kubernetes.DeleteResponse{Revision: 2}},
		"nothing to delete":         {[]string{"x"}, 0, true, kubernetes.DeleteResponse{Succeeded: true, Revision: 2}},
	} {
		t.Run(name, func(t *testing.T) {
			cluster, c := start(t)
			put(t, cluster, tt.before...)
			existed := cluster.Get("k") != nil
			got := clienttest.Must(c.Kubernetes.OptimisticDelete(t.Context(), "k", tt.expected, kubernetes.DeleteOptions{GetOnFailure: tt.get}))
			requireEqual(t, tt.want, got)
			require.Equal(t, existed && !tt.want.Succeeded, cluster.Get("k") != nil)
		})
	}
}

// countingKV is a wrapper as kube-apiserver uses it.
type countingKV struct {
	clientv3.KV
	gets, txns int
}

func (c *countingKV) Get(ctx context.Context, key string, opts ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	c.gets++
	return c.KV.Get(ctx, key, opts...)
}

func (c *countingKV) Txn(ctx context.Context) clientv3.Txn {
	c.txns++
	return c.KV.Txn(ctx)
}

// TestAnswersThatNoServerGives come from proxies and wrappers. The official client panics on those of a
// delete, and on answers without a header.
func TestAnswersThatNoServerGives(t *testing.T) {
	deleted := &pb.ResponseOp{Response: &pb.ResponseOp_ResponseDeleteRange{ResponseDeleteRange: &pb.DeleteRangeResponse{}}}
	for name, responses := range map[string][]*pb.ResponseOp{
		"none":    nil,
		"empty":   {{}},
		"no read": {deleted},
		"several": {{}, {}},
	} {
		t.Run(name, func(t *testing.T) {
			cluster, c := start(t)
			cluster.On("Txn", func(call *fakeetcd.Call) { call.Answer(&pb.TxnResponse{Responses: responses}, nil) })
			put, err := c.Kubernetes.OptimisticPut(t.Context(), "k", nil, 7, kubernetes.PutOptions{GetOnFailure: true})
			require.ErrorContains(t, err, `key "k" was modified`)
			require.Equal(t, kubernetes.PutResponse{}, put)
			del, err := c.Kubernetes.OptimisticDelete(t.Context(), "k", 7, kubernetes.DeleteOptions{GetOnFailure: true})
			require.ErrorContains(t, err, `key "k" was modified`)
			require.Equal(t, kubernetes.DeleteResponse{}, del)
		})
	}
	t.Run("no header", func(t *testing.T) {
		cluster, c := start(t)
		cluster.On("Range", func(call *fakeetcd.Call) { call.Answer(&pb.RangeResponse{}, nil) })
		cluster.On("Txn", func(call *fakeetcd.Call) { call.Answer(&pb.TxnResponse{Succeeded: true}, nil) })
		get := clienttest.Must(c.Kubernetes.Get(t.Context(), "k", kubernetes.GetOptions{}))
		require.Equal(t, kubernetes.GetResponse{}, get)
		list := clienttest.Must(c.Kubernetes.List(t.Context(), "k", kubernetes.ListOptions{}))
		require.Equal(t, kubernetes.ListResponse{}, list)
		put := clienttest.Must(c.Kubernetes.OptimisticPut(t.Context(), "k", nil, 0, kubernetes.PutOptions{}))
		require.Equal(t, kubernetes.PutResponse{Succeeded: true}, put)
	})
}

// TestErrors: the server's reach the caller as they are. Calls go through the field KV, which is assigned after the client is made.
func TestErrors(t *testing.T) {
	cluster, c := start(t)
	wrapper := &countingKV{KV: c.KV}
	c.KV = wrapper
	for _, method := range []string{"Range", "Txn"} {
		cluster.On(method, func(call *fakeetcd.Call) { call.Answer(nil, rpctypes.ErrGRPCPermissionDenied) })
	}
	ctx := t.Context()
	for name, call := range map[string]func() error{
		"Get":   func() error { _, err := c.Kubernetes.Get(ctx, "k", kubernetes.GetOptions{}); return err },
		"List":  func() error { _, err := c.Kubernetes.List(ctx, "k", kubernetes.ListOptions{}); return err },
		"Count": func() error { _, err := c.Kubernetes.Count(ctx, "k", kubernetes.CountOptions{}); return err },
		"OptimisticPut": func() error {
			_, err := c.Kubernetes.OptimisticPut(ctx, "k", nil, 0, kubernetes.PutOptions{})
			return err
		},
		"OptimisticDelete": func() error {
			_, err := c.Kubernetes.OptimisticDelete(ctx, "k", 0, kubernetes.DeleteOptions{})
			return err
		},
	} {
		require.Equal(t, rpctypes.ErrPermissionDenied, call(), name)
	}
	require.Equal(t, 3, wrapper.gets)
	require.Equal(t, 2, wrapper.txns)
}
