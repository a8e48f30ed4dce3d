package ordering_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/internal/clienttest"
	"github.com/quorate/quorate/clientv3/mock/fakeetcd"
	"github.com/quorate/quorate/clientv3/ordering"
)

// scripted is a KV that answers every operation with the next of its revisions, and
// with the last one again and again.
type scripted struct {
	clientv3.KV // for what is not scripted

	mu        sync.Mutex
	revisions []int64
	headers   []*pb.ResponseHeader // in place of revisions, if there are any
	ops       []clientv3.Op
}

func script(revisions ...int64) *scripted {
	return &scripted{KV: clientv3.NewKVFromKVClient(nil, nil), revisions: revisions}
}

func (s *scripted) Do(ctx context.Context, op clientv3.Op) (clientv3.OpResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ops = append(s.ops, op)
	header := &pb.ResponseHeader{Revision: s.revisions[0]}
	if len(s.revisions) > 1 {
		s.revisions = s.revisions[1:]
	}
	if len(s.headers) > 0 {
		header = s.headers[0]
		s.headers = s.headers[min(1, len(s.headers)-1):]
	}
	switch {
	case op.IsGet():
		return (&clientv3.GetResponse{Header: header}).OpResponse(), nil
	case op.IsPut():
		return (&clientv3.PutResponse{Header: header}).OpResponse(), nil
	case op.IsDelete():
		return (&clientv3.DeleteResponse{Header: header}).OpResponse(), nil
	default:
		return (&clientv3.TxnResponse{Header: header}).OpResponse(), nil
	}
}

func (s *scripted) Compact(context.Context, int64, ...clientv3.CompactOption) (*clientv3.CompactResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return &clientv3.CompactResponse{Header: &pb.ResponseHeader{Revision: s.revisions[0]}}, nil
}

func (s *scripted) sent() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.ops)
}

// violation has the arguments of an OrderViolationFunc.
type violation struct{ got, prevRev int64 }

// recorder is an OrderViolationFunc that allows as many retries as asked for.
type recorder struct {
	retries    int
	violations []violation
}

var errTooOld = errors.New("too old")

func (r *recorder) record(_ clientv3.Op, resp clientv3.OpResponse, prevRev int64) error {
	r.violations = append(r.violations, violation{revision(resp), prevRev})
	if len(r.violations) > r.retries {
		return errTooOld
	}
	return nil
}

func revision(resp clientv3.OpResponse) int64 {
	switch {
	case resp.Get() != nil:
		return resp.Get().Header.GetRevision()
	case resp.Put() != nil:
		return resp.Put().Header.GetRevision()
	case resp.Del() != nil:
		return resp.Del().Header.GetRevision()
	default:
		return resp.Txn().Header.GetRevision()
	}
}

// call is a request in one of the ways that a KV offers. It returns the revision.
type call struct {
	name string
	do   func(context.Context, clientv3.KV) (int64, error)
}

func viaDo(op clientv3.Op) func(context.Context, clientv3.KV) (int64, error) {
	return func(ctx context.Context, kv clientv3.KV) (int64, error) {
		resp, err := kv.Do(ctx, op)
		if err != nil {
			return 0, err
		}
		return revision(resp), nil
	}
}

func viaTxn(ops ...clientv3.Op) func(context.Context, clientv3.KV) (int64, error) {
	return func(ctx context.Context, kv clientv3.KV) (int64, error) {
		resp, err := kv.Txn(ctx).Then(ops...).Commit()
		return (*pb.TxnResponse)(resp).GetHeader().GetRevision(), err
	}
}

var (
	readTxn  = clientv3.OpTxn(nil, []clientv3.Op{clientv3.OpGet("a")}, []clientv3.Op{clientv3.OpTxn(nil, []clientv3.Op{clientv3.OpGet("b")}, nil)})
	writeTxn = clientv3.OpTxn(nil, []clientv3.Op{clientv3.OpGet("a")}, []clientv3.Op{clientv3.OpTxn(nil, nil, []clientv3.Op{clientv3.OpDelete("b")})})
)

var reads = []call{
	{"Get", func(ctx context.Context, kv clientv3.KV) (int64, error) {
		resp, err := kv.Get(ctx, "k", clientv3.WithSerializable())
		return (*pb.RangeResponse)(resp).GetHeader().GetRevision(), err
	}},
	{"Do get", viaDo(clientv3.OpGet("k"))},
	{"Do read txn", viaDo(readTxn)},
	{"read Txn", viaTxn(clientv3.OpGet("k"))},
	{"nested read Txn", viaTxn(readTxn)},
	{"empty Txn", viaTxn()},
}

var writes = []call{
	{"Put", func(ctx context.Context, kv clientv3.KV) (int64, error) {
		resp, err := kv.Put(ctx, "k", "v")
		return (*pb.PutResponse)(resp).GetHeader().GetRevision(), err
	}},
	{"Delete", func(ctx context.Context, kv clientv3.KV) (int64, error) {
		resp, err := kv.Delete(ctx, "k")
		return (*pb.DeleteRangeResponse)(resp).GetHeader().GetRevision(), err
	}},
	{"Do put", viaDo(clientv3.OpPut("k", "v"))},
	{"Do delete", viaDo(clientv3.OpDelete("k"))},
	{"Do write txn", viaDo(writeTxn)},
	{"write Txn", viaTxn(clientv3.OpPut("k", "v"))},
	{"nested write Txn", viaTxn(writeTxn)},
}

// TestReadsAreRepeated has every kind of read answered from the past, after every
// kind of request.
func TestReadsAreRepeated(t *testing.T) {
	for _, before := range append(reads, writes...) {
		for _, read := range reads {
			t.Run(before.name+" before "+read.name, func(t *testing.T) {
				inner, r := script(5, 4, 1, 6, 6), &recorder{retries: 2}
				kv := ordering.NewKV(inner, r.record)
				rev, err := before.do(t.Context(), kv)
				require.NoError(t, err)
				require.EqualValues(t, 5, rev)
				rev, err = read.do(t.Context(), kv)
				require.NoError(t, err)
				require.EqualValues(t, 6, rev)
				require.Equal(t, []violation{{4, 5}, {1, 5}}, r.violations)
				require.Equal(t, 4, inner.sent())
				rev, err = read.do(t.Context(), kv)
				require.NoError(t, err, "the same revision is none that is older")
				require.EqualValues(t, 6, rev)
			})
		}
	}
}

func TestViolationsAreReported(t *testing.T) {
	for _, c := range reads {
		t.Run(c.name, func(t *testing.T) {
			inner, r := script(5, 4), &recorder{}
			kv := ordering.NewKV(inner, r.record)
			clienttest.Get(t, kv, "k")
			rev, err := c.do(t.Context(), kv)
			require.Equal(t, errTooOld, err)
			require.Zero(t, rev, "no response")
			require.Equal(t, []violation{{4, 5}}, r.violations)
		})
	}
}

// A write that is answered was carried out, whatever its revision.
func TestWritesPassThrough(t *testing.T) {
	for _, write := range writes {
		t.Run(write.name, func(t *testing.T) {
			inner, r := script(5, 3), &recorder{}
			kv := ordering.NewKV(inner, r.record)
			clienttest.Get(t, kv, "k")
			rev, err := write.do(t.Context(), kv)
			require.NoError(t, err)
			require.EqualValues(t, 3, rev)
			require.Equal(t, 2, inner.sent())
			require.Empty(t, r.violations)
		})
	}
}

// TestTheClusterChanges restores a store from a backup, and exchanges it for another.
func TestTheClusterChanges(t *testing.T) {
	seen := &pb.ResponseHeader{ClusterId: 1, Revision: 5}
	for name, now := range map[string]*pb.ResponseHeader{
		"restored": {ClusterId: 1, Revision: 3}, "another": {ClusterId: 2, Revision: 9},
	} {
		for _, c := range append([]call{{"Get", viaDo(clientv3.OpGet("k"))}, {"read Txn", viaTxn(clientv3.OpGet("k"))}}, writes...) {
			t.Run(name+", "+c.name, func(t *testing.T) {
				inner, r := script(5), &recorder{retries: 100}
				inner.headers = []*pb.ResponseHeader{seen, now}
				kv := ordering.NewKV(inner, r.record)
				clienttest.Get(t, kv, "k")
				rev, err := c.do(t.Context(), kv)
				if strings.HasSuffix(c.name, "Get") || c.name == "read Txn" {
					requireChanged(t, err, now)
				} else {
					require.NoError(t, err, "it was carried out")
					require.Equal(t, now.Revision, rev)
				}
				for _, read := range reads {
					_, err = read.do(t.Context(), kv)
					requireChanged(t, err, now)
				}
				_, err = kv.Put(t.Context(), "k", "v")
				require.NoError(t, err)
				require.Empty(t, r.violations)
				_, err = ordering.NewKV(inner, r.record).Get(t.Context(), "k")
				require.NoError(t, err, "another KV begins with what is there")
			})
		}
	}
}

func requireChanged(t *testing.T, err error, now *pb.ResponseHeader) {
	t.Helper()
	require.ErrorIs(t, err, ordering.ErrNoGreaterRev)
	var changed *clientv3.ClusterChangedError
	require.ErrorAs(t, err, &changed)
	require.Equal(t, clientv3.ClusterChangedError{
		OldClusterID: 1, OldRevision: 5, NewClusterID: now.ClusterId, NewRevision: now.Revision,
	}, *changed)
}

func TestCompactCounts(t *testing.T) {
	r := &recorder{}
	inner := script(5)
	kv := ordering.NewKV(inner, r.record)
	_, err := kv.Compact(t.Context(), 3)
	require.NoError(t, err)
	inner.revisions = []int64{4}
	_, err = kv.Get(t.Context(), "k")
	require.Equal(t, errTooOld, err)
}

func TestResponsesWithoutHeader(t *testing.T) {
	r := &recorder{}
	kv := ordering.NewKV(headless{script(5)}, r.record)
	_, err := kv.Get(t.Context(), "k")
	require.NoError(t, err, "nothing was seen before")
	_, err = kv.Put(t.Context(), "k", "v")
	require.NoError(t, err)
	_, err = kv.Get(t.Context(), "k")
	require.Equal(t, errTooOld, err)
	require.Equal(t, []violation{{0, 5}}, r.violations)
}

// headless answers a get without a header.
type headless struct{ *scripted }

func (h headless) Do(ctx context.Context, op clientv3.Op) (clientv3.OpResponse, error) {
	if op.IsGet() {
		return new(clientv3.GetResponse).OpResponse(), nil
	}
	return h.scripted.Do(ctx, op)
}

// TestRetriesEndWithTheContext has a member that stays behind, and a function that
// never gives up.
func TestRetriesEndWithTheContext(t *testing.T) {
	for _, read := range reads {
		t.Run(read.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				inner := script(5, 4)
				kv := ordering.NewKV(inner, func(clientv3.Op, clientv3.OpResponse, int64) error { return nil })
				clienttest.Get(t, kv, "k")
				const patience = 10 * time.Second
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				defer cancel()
				began := time.Now()
				_, err := read.do(ctx, kv)
				require.Equal(t, context.DeadlineExceeded, err)
				require.Equal(t, patience, time.Since(began))
				require.InDelta(t, 105, inner.sent(), 10, "ten a second")
			})
		})
	}
}

// TestOverlap has a request end after a later one. It began before, so it is not a
// step back.
func TestOverlap(t *testing.T) {
	cluster, c := clienttest.StartClient(t, 1)
	release := make(chan struct{})
	cluster.Once("Range", func(call *fakeetcd.Call) {
		_, err := call.Execute()
		assert.NoError(t, err)
		assert.NoError(t, call.Hold(release))
	})
	r := &recorder{}
	kv := ordering.NewKV(c, r.record)
	held := make(chan error)
	go func() {
		_, err := kv.Get(t.Context(), "k")
		held <- err
	}()
	require.NoError(t, cluster.Wait(t.Context(), "Range", 1))
	_, err := kv.Put(t.Context(), "k", "v")
	require.NoError(t, err)
	close(release)
	require.NoError(t, <-held)
	require.Empty(t, r.violations)
}

// TestConcurrentReaders has readers of members that are behind by chance, and answer within the second that the status
// of a member may take.
func TestConcurrentReaders(t *testing.T) {
	clienttest.InBubble(t, 3, func(t *testing.T, cluster *fakeetcd.Cluster, c *clientv3.Client) {
		cluster.On("Range", func(call *fakeetcd.Call) {
			resp, err := call.Execute()
			if assert.NoError(t, err) {
				header := resp.(*pb.RangeResponse).Header
				header.Revision -= rand.Int64N(min(header.Revision, 4))
			}
		})
		kv := ordering.NewKV(c, ordering.NewOrderViolationSwitchEndpointClosure(c))
		var readers sync.WaitGroup
		for range 8 {
			readers.Go(func() {
				var last int64
				for i := range 50 {
					if i%10 == 0 {
						put, err := kv.Put(t.Context(), "k", "v")
						if !assert.NoError(t, err) || !assert.Greater(t, put.Header.Revision, last) {
							return
						}
						last = put.Header.Revision
					}
					get, err := kv.Get(t.Context(), "k", clientv3.WithSerializable())
					if !assert.NoError(t, err) || !assert.GreaterOrEqual(t, get.Header.Revision, last) {
						return
					}
					last = get.Header.Revision
				}
			})
		}
		readers.Wait()
	})
}

func TestTxn(t *testing.T) {
	inner := script(5)
	kv := ordering.NewKV(inner, new(recorder).record)
	cmps := []clientv3.Cmp{clientv3.Compare(clientv3.Version("a"), "=", 0)}
	thenOps, elseOps := []clientv3.Op{clientv3.OpGet("b")}, []clientv3.Op{clientv3.OpPut("c", "v")}
	txn := kv.Txn(t.Context()).If(cmps...).Then(thenOps...).Else(elseOps...)
	cmps[0].WithKeyBytes([]byte("changed since"))
	thenOps[0], elseOps[0] = clientv3.OpGet("changed"), clientv3.OpGet("since")
	_, err := txn.Commit()
	require.NoError(t, err)
	cmps, thenOps, elseOps = inner.ops[0].Txn()
	require.Equal(t, "a", string(cmps[0].KeyBytes()))
	require.Equal(t, "b", string(thenOps[0].KeyBytes()))
	require.Equal(t, "c", string(elseOps[0].KeyBytes()))

	require.PanicsWithValue(t, "cannot call Then after Else!", func() { kv.Txn(t.Context()).Else().Then() })
	require.PanicsWithValue(t, "cannot call If twice!", func() { kv.Txn(t.Context()).If().If() })
}

func TestErrorsPass(t *testing.T) {
	_, c := clienttest.StartClient(t, 1)
	kv := ordering.NewKV(c, new(recorder).record)
	get, err := kv.Get(t.Context(), "")
	require.Nil(t, get)
	require.Equal(t, rpctypes.ErrEmptyKey, err)
	put, err := kv.Put(t.Context(), "", "")
	require.Nil(t, put)
	require.Equal(t, rpctypes.ErrEmptyKey, err)
	del, err := kv.Delete(t.Context(), "")
	require.Nil(t, del)
	require.Equal(t, rpctypes.ErrEmptyKey, err)
	txn, err := kv.Txn(t.Context()).Then(clientv3.OpGet("")).Commit()
	require.Nil(t, txn)
	require.Equal(t, rpctypes.ErrEmptyKey, err)
	_, err = kv.Compact(t.Context(), 100)
	require.Equal(t, rpctypes.ErrFutureRev, err)
}
