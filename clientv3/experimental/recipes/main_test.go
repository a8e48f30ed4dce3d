package recipe_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.uber.org/goleak"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/concurrency"
	"github.com/quorate/quorate/clientv3/internal/clienttest"
	"github.com/quorate/quorate/clientv3/mock/fakeetcd"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is far above what anything that a test waits for takes.
const patience = time.Minute

func start(t *testing.T) (*fakeetcd.Cluster, *clientv3.Client) {
	t.Helper()
	return clienttest.StartClient(t, 1)
}

func newSession(t *testing.T, client *clientv3.Client, opts ...concurrency.SessionOption) *concurrency.Session {
	t.Helper()
	s, err := concurrency.NewSession(client, opts...)
	require.NoError(t, err)
	t.Cleanup(s.Orphan)
	return s
}

// expire ends a session as a dead process does.
func expire(t *testing.T, cluster *fakeetcd.Cluster, s *concurrency.Session) {
	t.Helper()
	require.NoError(t, cluster.ExpireLease(int64(s.Lease())))
}

// pending is a call under way.
type pending chan error

func call(f func() error) pending {
	p := make(pending, 1)
	go func() { p <- f() }()
	return p
}

// result returns what the call returns.
func (p pending) result(t *testing.T) error {
	t.Helper()
	select {
	case err := <-p:
		return err
	case <-time.After(patience):
		require.Fail(t, "the call does not return")
		return nil
	}
}

// until waits until the members have received n calls of a method, which the pending
// call, waiting for something, has them receive.
func (p pending) until(t *testing.T, cluster *fakeetcd.Cluster, method string, n int) {
	t.Helper()
	received := make(chan error, 1)
	go func() { received <- cluster.Wait(clienttest.Within(t), method, n) }()
	select {
	case err := <-received:
		require.NoError(t, err)
		p.still(t)
	case err := <-p:
		require.Fail(t, "the call does not wait", "it returned %v", err)
	}
}

// still checks that the call has not returned yet.
func (p pending) still(t *testing.T) {
	t.Helper()
	select {
	case err := <-p:
		require.Fail(t, "the call does not wait", "it returned %v", err)
	default:
	}
}

// waiting makes a call of a participant that waits, to lock or to enter, and returns when
// it watches its own key and what it waits for.
func waiting(t *testing.T, cluster *fakeetcd.Cluster, f func() error) pending {
	t.Helper()
	return watching(t, cluster, 2, f)
}

// watching makes a call that waits, and returns when it has created n watches.
func watching(t *testing.T, cluster *fakeetcd.Cluster, n int, f func() error) pending {
	t.Helper()
	n += watchesCreated(cluster)
	p := call(f)
	for late := time.Now().Add(patience); watchesCreated(cluster) < n; time.Sleep(time.Millisecond) {
		p.still(t)
		require.True(t, time.Now().Before(late), "the call does not watch")
	}
	return p
}

func watchesCreated(cluster *fakeetcd.Cluster) int {
	n := 0
	for _, record := range cluster.Calls("Watch") {
		for _, req := range record.Requests {
			if req.(*pb.WatchRequest).GetCreateRequest() != nil {
				n++
			}
		}
	}
	return n
}

// held makes a call that waits, of a client that has no watches yet, and returns when its
// stream is held, see holdWatch.
func held(t *testing.T, cluster *fakeetcd.Cluster, f func() error) pending {
	t.Helper()
	n := cluster.Count("Watch")
	p := call(f)
	p.until(t, cluster, "Watch", n+1)
	return p
}

// refuseWatches has the members refuse all watches.
func refuseWatches(cluster *fakeetcd.Cluster) *fakeetcd.Hook {
	return cluster.On("Watch", func(c *fakeetcd.Call) {
		for {
			req, err := c.Recv()
			if err != nil {
				return
			}
			if req.(*pb.WatchRequest).GetCreateRequest() == nil {
				continue
			}
			_ = c.Send(&pb.WatchResponse{
				Header: &pb.ResponseHeader{Revision: 1}, WatchId: -1, Created: true, Canceled: true,
				CancelReason: rpctypes.ErrGRPCPermissionDenied.Error(),
			})
		}
	})
}

// holdWatch has the members serve the next watch stream only when the returned function
// is called.
func holdWatch(t *testing.T, cluster *fakeetcd.Cluster) (release func()) {
	held := make(chan struct{})
	cluster.Once("Watch", func(c *fakeetcd.Call) {
		if c.Hold(held) == nil {
			_, _ = c.Execute()
		}
	})
	t.Cleanup(func() {
		select {
		case <-held:
		default:
			close(held)
		}
	})
	return func() { close(held) }
}

// compact writes something else and drops the history up to now.
func compact(t *testing.T, cluster *fakeetcd.Cluster) {
	t.Helper()
	for range 3 {
		clienttest.Put(t, cluster, "something else", "")
	}
	require.NoError(t, cluster.Compact(cluster.Revision()))
}

func put(t *testing.T, client *clientv3.Client, key, value string, opts ...clientv3.OpOption) {
	t.Helper()
	_, err := client.Put(clienttest.Within(t), key, value, opts...)
	require.NoError(t, err)
}

func remove(t *testing.T, client *clientv3.Client, key string, opts ...clientv3.OpOption) {
	t.Helper()
	_, err := client.Delete(clienttest.Within(t), key, opts...)
	require.NoError(t, err)
}

// keys returns the keys with a prefix, oldest first.
func keys(t *testing.T, client *clientv3.Client, prefix string) []string {
	t.Helper()
	resp, err := client.Get(clienttest.Within(t), prefix, clientv3.WithPrefix(),
		clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortAscend))
	require.NoError(t, err)
	all := []string{}
	for _, kv := range resp.Kvs {
		all = append(all, string(kv.Key))
	}
	return all
}

func requireClientClosed(t *testing.T, err error) {
	t.Helper()
	require.Error(t, err)
	require.True(t, clientv3.IsConnCanceled(err), "%v", err)
}

func requireSessionLost(t *testing.T, err error) {
	t.Helper()
	require.ErrorIs(t, err, concurrency.ErrSessionExpired)
	assert.ErrorContains(t, err, "recipe: ")
}
