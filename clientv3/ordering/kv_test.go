package ordering_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.uber.org/goleak"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/internal/clienttest"
	"github.com/quorate/quorate/clientv3/internal/optxn"
	"github.com/quorate/quorate/clientv3/mock/fakeetcd"
	"github.com/quorate/quorate/clientv3/ordering"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// scripted is a KV that answers every operation with the next of its headers, and with the last one again and again.
type scripted struct {
	clientv3.KV // for what is not scripted

	headers []*pb.ResponseHeader
	sent    int
}

func script(headers ...*pb.ResponseHeader) *scripted {
	return &scripted{KV: clientv3.NewKVFromKVClient(nil, nil), headers: headers}
}

// at returns headers with revisions, of a cluster that is not named.
func at(revisions ...int64) []*pb.ResponseHeader {
	headers := make([]*pb.ResponseHeader, len(revisions))
	for i, rev := range revisions {
		headers[i] = &pb.ResponseHeader{Revision: rev}
	}
	return headers
}

func (s *scripted) Do(_ context.Context, op clientv3.Op) (clientv3.OpResponse, error) {
	s.sent++
	header := s.headers[0]
	s.headers = s.headers[min(1, len(s.headers)-1):]
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
	return &clientv3.CompactResponse{Header: s.headers[0]}, nil
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

func revision(resp clientv3.OpResponse) int64 { return optxn.Response(resp).GetHeader().GetRevision() }

// do executes an operation and returns its revision.
func do(ctx context.Context, kv clientv3.KV, op clientv3.Op) (int64, error) {
	resp, err := kv.Do(ctx, op)
	return revision(resp), err
}

type ops = map[string]clientv3.Op

func then(ops ...clientv3.Op) clientv3.Op      { return clientv3.OpTxn(nil, ops, nil) }
func otherwise(ops ...clientv3.Op) clientv3.Op { return clientv3.OpTxn(nil, nil, ops) }

// The operations of each kind. Other calls are made of them, see package optxn.
var (
	reads = ops{
		"serializable get": clientv3.OpGet("k", clientv3.WithSerializable()),
		"get":              clientv3.OpGet("k"),
		"read txn":         then(clientv3.OpGet("k")),
		"nested read txn":  then(otherwise(then(clientv3.OpGet("k")))),
		"empty txn":        then(),
	}
	writes = ops{
		"put":              clientv3.OpPut("k", "v"),
		"delete":           clientv3.OpDelete("k"),
		"write txn":        then(clientv3.OpGet("k"), clientv3.OpPut("k", "v")),
		"nested write txn": then(otherwise(otherwise(clientv3.OpDelete("k")))),
	}
)

// TestReadsAreRepeated has every kind of read answered from the past, after every
// kind of request, as often as the function allows.
func TestReadsAreRepeated(t *testing.T) {
	for _, kinds := range []ops{reads, writes} {
		for first, before := range kinds {
			for name, read := range reads {
				inner, r := script(at(5, 4, 1, 6, 6, 3)...), &recorder{retries: 2}
				kv := ordering.NewKV(inner, r.record)
				name = first + " before " + name
				rev, err := do(t.Context(), kv, before)
				require.NoError(t, err, name)
				require.EqualValues(t, 5, rev, name)
				rev, err = do(t.Context(), kv, read)
				require.NoError(t, err, name)
				require.EqualValues(t, 6, rev, name)
				require.Equal(t, []violation{{4, 5}, {1, 5}}, r.violations, name)
				require.Equal(t, 4, inner.sent, name)
				rev, err = do(t.Context(), kv, read)
				require.NoError(t, err, "%s: the same revision is none that is older", name)
				require.EqualValues(t, 6, rev, name)
				rev, err = do(t.Context(), kv, read)
				require.Equal(t, errTooOld, err, name)
				require.Zero(t, rev, "%s: no response", name)
				require.Equal(t, violation{3, 6}, r.violations[2], name)
			}
		}
	}
}

// A write that is answered was carried out, whatever its revision.
func TestWritesPassThrough(t *testing.T) {
	for name, write := range writes {
		inner, r := script(at(5, 3)...), &recorder{}
		kv := ordering.NewKV(inner, r.record)
		clienttest.Get(t, kv, "k")
		rev, err := do(t.Context(), kv, write)
		require.NoError(t, err, name)
		require.EqualValues(t, 3, rev, name)
		require.Equal(t, 2, inner.sent, name)
		require.Empty(t, r.violations, name)
	}
}

// TestTheClusterChanges restores a store from a backup, and exchanges it for another. Serializable reads may be old.
func TestTheClusterChanges(t *testing.T) {
	seen := &pb.ResponseHeader{ClusterId: 1, Revision: 5}
	linearizable := []clientv3.Op{reads["get"], reads["read txn"]}
	for _, write := range writes {
		linearizable = append(linearizable, write)
	}
	for _, now := range []*pb.ResponseHeader{{ClusterId: 1, Revision: 3}, {ClusterId: 2, Revision: 9}} {
		for i, op := range linearizable {
			inner, r := script(seen, now), &recorder{retries: 100}
			kv := ordering.NewKV(inner, r.record)
			clienttest.Get(t, kv, "k")
			rev, err := do(t.Context(), kv, op)
			if i < 2 {
				requireChanged(t, err, now)
			} else {
				require.NoError(t, err, "it was carried out")
				require.Equal(t, now.Revision, rev)
			}
			for _, read := range reads {
				_, err = do(t.Context(), kv, read)
				requireChanged(t, err, now)
			}
			clienttest.Must(kv.Put(t.Context(), "k", "v"))
			require.Empty(t, r.violations)
			_, err = ordering.NewKV(inner, r.record).Get(t.Context(), "k")
			require.NoError(t, err, "another KV begins with what is there")
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
	inner := script(at(5)...)
	kv := ordering.NewKV(inner, new(recorder).record)
	_, err := kv.Compact(t.Context(), 3)
	require.NoError(t, err)
	inner.headers = at(4)
	_, err = kv.Get(t.Context(), "k")
	require.Equal(t, errTooOld, err)
}

func TestResponsesWithoutHeader(t *testing.T) {
	r := &recorder{}
	kv := ordering.NewKV(script(nil, at(5)[0], nil), r.record)
	_, err := kv.Get(t.Context(), "k")
	require.NoError(t, err, "nothing was seen before")
	clienttest.Must(kv.Put(t.Context(), "k", "v"))
	_, err = kv.Get(t.Context(), "k")
	require.Equal(t, errTooOld, err)
	require.Equal(t, []violation{{0, 5}}, r.violations)
}

// TestRetriesEndWithTheContext has a member that stays behind, and a function that
// never gives up.
func TestRetriesEndWithTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := script(at(5, 4)...)
		kv := ordering.NewKV(inner, func(clientv3.Op, clientv3.OpResponse, int64) error { return nil })
		clienttest.Get(t, kv, "k")
		const timeout = 10 * time.Second
		ctx, cancel := context.WithTimeout(t.Context(), timeout)
		defer cancel()
		began := time.Now()
		_, err := kv.Get(ctx, "k")
		require.Equal(t, context.DeadlineExceeded, err)
		require.Equal(t, timeout, time.Since(began))
		require.InDelta(t, 105, inner.sent, 10, "ten a second")
	})
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
	clienttest.Must(kv.Put(t.Context(), "k", "v"))
	close(release)
	require.NoError(t, <-held)
	require.Empty(t, r.violations)
}

func TestErrorsPass(t *testing.T) {
	_, c := clienttest.StartClient(t, 1)
	kv := ordering.NewKV(c, new(recorder).record)
	get, err := kv.Get(t.Context(), "")
	require.Nil(t, get)
	require.Equal(t, rpctypes.ErrEmptyKey, err)
	_, err = kv.Compact(t.Context(), 100)
	require.Equal(t, rpctypes.ErrFutureRev, err)
}
