package concurrency_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.uber.org/goleak"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/quorate/quorate/clientv3"
	. "github.com/quorate/quorate/clientv3/concurrency"
	"github.com/quorate/quorate/clientv3/internal/clienttest"
	"github.com/quorate/quorate/clientv3/mock/fakeetcd"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fake is a scripted cluster and a client of it.
type fake struct {
	*fakeetcd.Cluster
	client *clientv3.Client
}

// withFake runs a test on a fake cluster in a synctest bubble: time passes only when every goroutine waits, and an
// endless wait is reported as a deadlock.
func withFake(t *testing.T, members int, test func(t *testing.T, f fake)) {
	t.Helper()
	clienttest.InBubble(t, members, func(t *testing.T, cluster *fakeetcd.Cluster, client *clientv3.Client) {
		test(t, fake{cluster, client})
	})
}

func (f fake) session(t *testing.T, opts ...SessionOption) *Session {
	t.Helper()
	s := clienttest.Must(NewSession(f.client, opts...))
	t.Cleanup(s.Orphan)
	return s
}

// settle makes the first write of the client, which asks all members whether they serve.
func (f fake) settle(t *testing.T) {
	t.Helper()
	f.remove(t, "no key")
	synctest.Wait()
}

// remove deletes a key.
func (f fake) remove(t *testing.T, key string) {
	t.Helper()
	clienttest.Must(f.client.Delete(t.Context(), key))
}

// stop makes the cluster unreachable until start.
func (f fake) stop() {
	for _, m := range f.Members() {
		m.Stop()
	}
}

func (f fake) start() {
	for _, m := range f.Members() {
		m.Start()
	}
}

// put writes a key, and returns the revision.
func (f fake) put(t *testing.T, key, value string) (rev int64) {
	t.Helper()
	return clienttest.Put(t, f.Cluster, key, value)
}

// keys returns the keys below a prefix in the order of their creation.
func (f fake) keys(t *testing.T, prefix string) []string {
	t.Helper()
	return clienttest.Keys(t, f.client, prefix)
}

// keyOf returns the key that the session has below a prefix.
func keyOf(s *Session, prefix string) string { return fmt.Sprintf("%s/%x", prefix, int64(s.Lease())) }

// requireWaiting checks that the call of a result has not returned.
func requireWaiting(t *testing.T, result <-chan error) {
	t.Helper()
	synctest.Wait()
	require.Empty(t, result)
}

// requireNow returns the result of a call, which must have returned already.
func requireNow(t *testing.T, result <-chan error) error {
	t.Helper()
	synctest.Wait()
	require.NotEmpty(t, result, "still waiting")
	return <-result
}

// lock returns a mutex that has the lock.
func lock(t *testing.T, s *Session, prefix string) *Mutex {
	t.Helper()
	m := NewMutex(s, prefix)
	require.NoError(t, m.Lock(t.Context()))
	return m
}

// owns reports whether a lock, election or semaphore is held, according to the server.
func owns(t *testing.T, c *clientv3.Client, m interface{ IsOwner() clientv3.Cmp }) bool {
	t.Helper()
	return clienttest.Must(c.Txn(t.Context()).If(m.IsOwner()).Commit()).Succeeded
}

// writes reports whether a call is a transaction that writes.
func writes(call *fakeetcd.Call) bool {
	txn, _ := call.Request.(*pb.TxnRequest)
	for _, op := range txn.GetSuccess() {
		if op.GetRequestPut() != nil || op.GetRequestDeleteRange() != nil {
			return true
		}
	}
	return false
}

// errReset is the error of a call whose stream an intermediary resets.
var errReset = status.Error(codes.Canceled, "stream terminated by RST_STREAM with error code: CANCEL")

// neverAnswer holds a call until the client has certainly given up: at the moment of its deadline an answer could still
// arrive.
func neverAnswer(call *fakeetcd.Call) {
	<-call.Context().Done()
	time.Sleep(time.Second)
}

// reportProgress serves a watch stream that reports progress, unasked, when a watch is created.
func reportProgress(call *fakeetcd.Call) {
	call.OnSend(func(m proto.Message) bool {
		resp := m.(*pb.WatchResponse)
		if resp.Created {
			_ = call.Send(resp)
			time.Sleep(10 * time.Millisecond)
			_ = call.Send(&pb.WatchResponse{Header: resp.Header, WatchId: resp.WatchId})
		}
		return !resp.Created
	})
	call.Answer(call.Execute())
}
