package batch

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.uber.org/goleak"

	"github.com/quorate/quorate/clientv3"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// stub is a KV whose RPCs the test answers, in any order.
type stub struct {
	clientv3.KV // nil: nothing but Do is called

	sent chan *rpc

	mu       sync.Mutex
	revision int64
	keys     map[string]*mvccpb.KeyValue
}

// rpc is an RPC that was sent.
type rpc struct {
	stub  *stub
	ctx   context.Context
	op    clientv3.Op
	reply chan result
}

type result struct {
	resp clientv3.OpResponse
	err  error
}

func newStub() *stub {
	return &stub{sent: make(chan *rpc, 10_000), revision: 1, keys: map[string]*mvccpb.KeyValue{}}
}

// stubbed runs a test in virtual time with a stub of its own.
func stubbed(t *testing.T, test func(t *testing.T, s *stub)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(t, newStub()) })
}

func (s *stub) Do(ctx context.Context, op clientv3.Op) (clientv3.OpResponse, error) {
	r := &rpc{s, ctx, op, make(chan result, 1)}
	s.sent <- r
	select {
	case answer := <-r.reply:
		return answer.resp, answer.err
	case <-ctx.Done():
		return clientv3.OpResponse{}, ctx.Err()
	}
}

// next returns the oldest RPC that was sent and that the test has not seen.
func (s *stub) next(t *testing.T) *rpc {
	t.Helper()
	synctest.Wait()
	require.NotEmpty(t, s.sent, "nothing was sent")
	return <-s.sent
}

// answerNext answers the next RPC, which has the keys.
func (s *stub) answerNext(t *testing.T, keys ...string) {
	t.Helper()
	r := s.next(t)
	require.Equal(t, keys, r.keys())
	r.answer()
}

// idle requires that nothing was sent that the test has not seen.
func (s *stub) idle(t *testing.T) {
	t.Helper()
	synctest.Wait()
	require.Empty(t, s.sent)
}

// answer executes the RPC and answers it.
func (r *rpc) answer() {
	r.stub.mu.Lock()
	defer r.stub.mu.Unlock()
	r.reply <- result{resp: r.stub.executeLocked(r.op)}
}

func (r *rpc) fail(err error) { r.reply <- result{err: err} }

// keys returns the keys of the operations of the RPC.
func (r *rpc) keys() []string {
	if !r.op.IsTxn() {
		return []string{string(r.op.KeyBytes())}
	}
	var keys []string
	_, ops, _ := r.op.Txn()
	for _, op := range ops {
		keys = append(keys, string(op.KeyBytes()))
	}
	return keys
}

// executeLocked executes gets, puts and deletes of single keys, and a Txn of such.
func (s *stub) executeLocked(op clientv3.Op) clientv3.OpResponse {
	ops := []clientv3.Op{op}
	if op.IsTxn() {
		_, ops, _ = op.Txn()
	}
	revision := s.revision
	txn := &clientv3.TxnResponse{Succeeded: true}
	for _, op := range ops {
		key := string(op.KeyBytes())
		was := s.keys[key]
		switch {
		case op.IsGet():
			got := &pb.RangeResponse{Header: &pb.ResponseHeader{Revision: s.revision}}
			if was != nil {
				got.Kvs, got.Count = []*mvccpb.KeyValue{was}, 1
			}
			txn.Responses = append(txn.Responses, &pb.ResponseOp{Response: &pb.ResponseOp_ResponseRange{ResponseRange: got}})
		case op.IsPut():
			revision = s.revision + 1
			s.keys[key] = &mvccpb.KeyValue{Key: op.KeyBytes(), Value: op.ValueBytes(), ModRevision: revision}
			txn.Responses = append(txn.Responses, &pb.ResponseOp{Response: &pb.ResponseOp_ResponsePut{ResponsePut: &pb.PutResponse{PrevKv: was}}})
		case op.IsDelete():
			del := &pb.DeleteRangeResponse{}
			if was != nil {
				revision, del.Deleted = s.revision+1, 1
				delete(s.keys, key)
			}
			txn.Responses = append(txn.Responses, &pb.ResponseOp{Response: &pb.ResponseOp_ResponseDeleteRange{ResponseDeleteRange: del}})
		}
	}
	s.revision = revision
	txn.Header = &pb.ResponseHeader{ClusterId: 1, MemberId: 2, RaftTerm: 3, Revision: revision}
	if op.IsTxn() {
		return txn.OpResponse()
	}
	responses, err := split(txn, ops)
	if err != nil {
		panic(err)
	}
	return responses[0]
}

// future is a call under way.
type future[T any] struct {
	done atomic.Bool
	resp T
	err  error
}

// start makes a call in a goroutine, and returns when it waits.
func start[T any](call func() (T, error)) *future[T] {
	f := new(future[T])
	go func() {
		f.resp, f.err = call()
		f.done.Store(true)
	}()
	synctest.Wait()
	return f
}

func get(ctx context.Context, kv clientv3.KV, key string, opts ...clientv3.OpOption) *future[*clientv3.GetResponse] {
	return start(func() (*clientv3.GetResponse, error) { return kv.Get(ctx, key, opts...) })
}

// getAll gets n keys with a prefix.
func getAll(t *testing.T, kv clientv3.KV, prefix string, n int) (calls []*future[*clientv3.GetResponse]) {
	t.Helper()
	for i := range n {
		calls = append(calls, get(t.Context(), kv, fmt.Sprint(prefix, i)))
	}
	return calls
}

func put(ctx context.Context, kv clientv3.KV, key, value string, opts ...clientv3.OpOption) *future[*clientv3.PutResponse] {
	return start(func() (*clientv3.PutResponse, error) { return kv.Put(ctx, key, value, opts...) })
}

// pending requires that the call has not returned.
func (f *future[T]) pending(t *testing.T) {
	t.Helper()
	synctest.Wait()
	require.False(t, f.done.Load(), "the call has returned")
}

// returned requires that the call has returned.
func (f *future[T]) returned(t *testing.T) (T, error) {
	t.Helper()
	synctest.Wait()
	require.True(t, f.done.Load(), "the call has not returned")
	return f.resp, f.err
}

// succeeds returns the response of a call that has returned without an error.
func (f *future[T]) succeeds(t *testing.T) T {
	t.Helper()
	resp, err := f.returned(t)
	require.NoError(t, err)
	return resp
}

// fails checks that the call has returned an error.
func (f *future[T]) fails(t *testing.T, want error) {
	t.Helper()
	_, err := f.returned(t)
	require.Equal(t, want, err)
}

// succeed checks that calls have returned without an error.
func succeed[T any](t *testing.T, calls ...*future[T]) {
	t.Helper()
	for _, f := range calls {
		f.succeeds(t)
	}
}

// value requires that a get returned one key, and returns its value.
func value(t *testing.T, f *future[*clientv3.GetResponse]) string {
	t.Helper()
	resp := f.succeeds(t)
	require.Len(t, resp.Kvs, 1)
	return string(resp.Kvs[0].Value)
}
