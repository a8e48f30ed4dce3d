package batch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/internal/clienttest"
	"github.com/quorate/quorate/retry"
)

// shareAll shares whatever meets another call.
var shareAll = Config{JoinReads: true, GroupWrites: true, MaxAlone: 1}

type contextKey struct{}

// whileReading runs a test whose gets wait, until it answers the RPC that it is given.
func whileReading(t *testing.T, test func(t *testing.T, s *stub, kv *KV, blocker *rpc)) {
	t.Helper()
	stubbed(t, func(t *testing.T, s *stub) {
		kv := New(s, shareAll)
		get(t.Context(), kv, "blocker")
		test(t, s, kv, s.next(t))
	})
}

func TestFewCallsAreSentAlone(t *testing.T) {
	stubbed(t, func(t *testing.T, s *stub) {
		kv := New(s, Config{JoinReads: true})
		ctx := context.WithValue(t.Context(), contextKey{}, "caller's")
		var calls []*future[*clientv3.GetResponse]
		for range DefaultMaxAlone {
			calls = append(calls, get(ctx, kv, "k"))
			r := s.next(t)
			require.True(t, r.op.IsGet())
			require.Equal(t, "caller's", r.ctx.Value(contextKey{}))
			defer r.answer()
		}
		late := get(ctx, kv, "k")
		s.idle(t)
		late.pending(t)
		time.Sleep(shortestWait)
		s.next(t).answer()
		_, err := late.returned(t)
		require.NoError(t, err, "it waits for no other call that hangs")
		calls[0].pending(t)
	})
}

// TestCallsWaitForABatch makes calls while as many as may be sent alone, and then a batch, are in
// flight.
func TestCallsWaitForABatch(t *testing.T) {
	stubbed(t, func(t *testing.T, s *stub) {
		kv := New(s, Config{JoinReads: true, MaxAlone: 2})
		get(t.Context(), kv, "alone")
		get(t.Context(), kv, "beside")
		alone := []*rpc{s.next(t), s.next(t)}
		getAll(t, kv, "k", 4)
		s.idle(t)
		alone[0].answer()
		s.idle(t)
		alone[1].answer()
		batch := s.next(t)
		require.Len(t, batch.keys(), 4)
		get(t.Context(), kv, "next")
		get(t.Context(), kv, "and next")
		s.idle(t)
		batch.answer()
		s.answerNext(t, "next", "and next")
	})
}

// TestLongRoundTripRaisesMaxAlone makes more calls than are sent alone over a short round trip.
func TestLongRoundTripRaisesMaxAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const callers = 5 * DefaultMaxAlone
		s := newStub()
		kv := New(s, Config{JoinReads: true})
		sent := func() (all []*rpc) {
			synctest.Wait()
			for range len(s.sent) {
				all = append(all, s.next(t))
			}
			return all
		}
		answer := func(all []*rpc) {
			time.Sleep(5 * aloneTrip)
			for _, r := range all {
				r.answer()
			}
			synctest.Wait()
		}
		require.Equal(t, DefaultMaxAlone, kv.alone())
		getAll(t, kv, "k", 1)
		answer(sent())
		require.Equal(t, callers, kv.alone())
		getAll(t, kv, "k", callers)
		alone := sent()
		require.Len(t, alone, callers)
		getAll(t, kv, "k", 2)
		require.Empty(t, sent(), "those that are too many wait")
		time.Sleep(5 * aloneTrip / waitFraction)
		batch := s.next(t)
		require.Equal(t, []string{"k0", "k1"}, batch.keys())
		answer(append(alone, batch))

		getAll(t, kv, "k", 1)
		s.next(t).answer() // at once
		synctest.Wait()
		require.Equal(t, DefaultMaxAlone, kv.alone())
	})
}

// alone is how many gets are sent alone at a time.
func (k *KV) alone() int {
	k.reads.mu.Lock()
	defer k.reads.mu.Unlock()
	return int(k.reads.aloneLocked())
}

// TestReadInFlightIsNotJoined reads while a get is in flight whose answer is older than a put.
func TestReadInFlightIsNotJoined(t *testing.T) {
	whileReading(t, func(t *testing.T, s *stub, kv *KV, inFlight *rpc) {
		joining := []*future[*clientv3.GetResponse]{get(t.Context(), kv, "k"), get(t.Context(), kv, "k")}
		inFlight.answer()
		batch := s.next(t)
		require.Equal(t, []string{"k"}, batch.keys())
		require.False(t, batch.op.IsTxn())

		s.mu.Lock()
		before := s.executeLocked(batch.op)
		s.mu.Unlock()
		put := put(t.Context(), kv, "k", "v")
		s.next(t).answer()
		put.succeeds(t)
		after := get(t.Context(), kv, "k")
		s.idle(t)
		batch.reply <- result{resp: before}
		s.next(t).answer()
		require.Equal(t, "v", value(t, after))
		succeed(t, joining...)
	})
}

func TestReadsShareAnRPC(t *testing.T) {
	whileReading(t, func(t *testing.T, s *stub, kv *KV, blocker *rpc) {
		for _, key := range []string{"a", "b", "c"} {
			put(t.Context(), kv, key, "value of "+key)
			s.next(t).answer()
		}
		calls := map[string][]*future[*clientv3.GetResponse]{}
		for range 3 {
			for _, key := range []string{"a", "b", "c"} {
				calls[key] = append(calls[key], get(t.Context(), kv, key))
			}
		}
		s.idle(t)
		blocker.answer()
		s.answerNext(t, "a", "b", "c")
		s.idle(t)
		seen := map[*byte]bool{}
		for key, gets := range calls {
			for _, f := range gets {
				require.Equal(t, "value of "+key, value(t, f))
				require.True(t, proto.Equal(&pb.ResponseHeader{ClusterId: 1, MemberId: 2, RaftTerm: 3, Revision: 4}, f.resp.Header))
				require.False(t, seen[&f.resp.Kvs[0].Value[0]], "two callers have the same bytes")
				seen[&f.resp.Kvs[0].Value[0]] = true
				f.resp.Kvs[0].Value[0], f.resp.Header.Revision = 'X', 0 // of no other caller
			}
		}
	})
}

func TestCancelOfOneCallerEndsNoOther(t *testing.T) {
	whileReading(t, func(t *testing.T, s *stub, kv *KV, blocker *rpc) {
		var cancels []context.CancelFunc
		var calls []*future[*clientv3.GetResponse]
		for i := range 5 {
			ctx, cancel := context.WithCancel(t.Context())
			cancels = append(cancels, cancel)
			calls = append(calls, get(ctx, kv, fmt.Sprint("k", i%2)))
		}
		leave := func(i int) {
			cancels[i]()
			calls[i].fails(t, context.Canceled)
		}
		leave(0) // while it waits
		blocker.answer()
		batch := s.next(t)
		require.Equal(t, []string{"k0", "k1"}, batch.keys())
		leave(1) // in flight
		require.NoError(t, batch.ctx.Err())
		batch.answer()
		succeed(t, calls[2:]...)
	})
}

func TestRPCEndsWithItsLastCaller(t *testing.T) {
	whileReading(t, func(t *testing.T, s *stub, kv *KV, blocker *rpc) {
		ctx, cancel := context.WithCancel(t.Context())
		waiting, leaving := get(ctx, kv, "a"), get(ctx, kv, "b")
		blocker.answer()
		batch := s.next(t)
		unsent := get(ctx, kv, "c")
		cancel()
		for _, f := range []*future[*clientv3.GetResponse]{waiting, leaving, unsent} {
			f.fails(t, context.Canceled)
		}
		require.Error(t, batch.ctx.Err())
		s.idle(t)
		next := get(t.Context(), kv, "d")
		s.next(t).answer()
		next.succeeds(t)
	})
}

func TestSharedErrorIsNotReturned(t *testing.T) {
	whileReading(t, func(t *testing.T, s *stub, kv *KV, blocker *rpc) {
		ctx := context.WithValue(t.Context(), contextKey{}, "caller's")
		allowed, denied := get(ctx, kv, "allowed"), get(ctx, kv, "denied")
		blocker.answer()
		s.next(t).fail(rpctypes.ErrPermissionDenied)
		for range 2 {
			r := s.next(t)
			require.Equal(t, "caller's", r.ctx.Value(contextKey{}))
			if r.keys()[0] == "denied" {
				r.fail(rpctypes.ErrPermissionDenied)
			} else {
				r.answer()
			}
		}
		allowed.succeeds(t)
		denied.fails(t, rpctypes.ErrPermissionDenied)

		get(ctx, kv, "blocker")
		blocker = s.next(t)
		getAll(t, kv, "k", 2)
		get(ctx, kv, "denied")
		s.answerNext(t, "denied")
		blocker.answer()
		s.answerNext(t, "k0", "k1")
	})
}

// TestOnlyAnOutageIsShared lets an RPC fail that gets with and without a deadline share. In an outage the client below has tried it
// for as long as a get without a deadline: only the other one is sent again.
func TestOnlyAnOutageIsShared(t *testing.T) {
	for err, sent := range map[error]int{
		status.Error(codes.Unavailable, "connection refused"): 1, rpctypes.ErrNoLeader: 1, rpctypes.ErrTimeout: 1,
		rpctypes.ErrTooManyRequests: 1, &retry.NotSentError{Err: context.DeadlineExceeded}: 1,
		rpctypes.ErrPermissionDenied: 2, status.Error(codes.ResourceExhausted, "envoy: rate limited"): 2, errors.New("who knows"): 2,
	} {
		whileReading(t, func(t *testing.T, s *stub, kv *KV, blocker *rpc) {
			limited, unlimited := get(clienttest.Within(t), kv, "limited"), get(t.Context(), kv, "unlimited")
			blocker.answer()
			s.next(t).fail(err)
			require.Len(t, sizes(t, s, (*rpc).answer), sent, err)
			limited.succeeds(t)
			if sent == 1 {
				unlimited.fails(t, err)
			}
		})
	}
}

// sizes answers what is sent until nothing is any more, and returns how many operations each RPC had.
func sizes(t *testing.T, s *stub, answer func(*rpc)) (sizes []int) {
	t.Helper()
	for {
		time.Sleep(2 * shortestWait)
		synctest.Wait()
		if len(s.sent) == 0 {
			return sizes
		}
		for range len(s.sent) {
			r := s.next(t)
			sizes = append(sizes, len(r.keys()))
			answer(r)
		}
	}
}

func TestBatchesKeepTheBounds(t *testing.T) {
	tests := map[string]struct {
		cfg   Config
		calls int
		key   string
		want  []int
	}{
		"operations": {Config{MaxOps: 10}, 25, "", []int{1, 10, 10, 5}},
		"etcd's":     {Config{}, 300, "", []int{1, 128, 128, 44}},
		"bytes":      {Config{MaxBytes: 10_000}, 9, strings.Repeat("k", 3000), []int{1, 3, 3, 3}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			stubbed(t, func(t *testing.T, s *stub) {
				tt.cfg.JoinReads, tt.cfg.MaxAlone = true, 1
				kv := New(s, tt.cfg)
				calls := append(getAll(t, kv, "blocker", 1), getAll(t, kv, tt.key, tt.calls)...)
				assert.Equal(t, tt.want, sizes(t, s, (*rpc).answer))
				succeed(t, calls...)
			})
		})
	}
}

// TestResponsesAreBounded reads keys of 1 MiB, and then small ones.
func TestResponsesAreBounded(t *testing.T) {
	stubbed(t, func(t *testing.T, s *stub) {
		kv := New(s, Config{JoinReads: true, MaxAlone: 1, MaxOps: 10})
		read := func(prefix string) []int {
			calls := getAll(t, kv, prefix, 21)
			sent := sizes(t, s, (*rpc).answer)
			succeed(t, calls...)
			return sent
		}
		for i := range 21 {
			key := fmt.Sprint("large", i)
			s.keys[key] = &mvccpb.KeyValue{Key: []byte(key), Value: make([]byte, 1<<20-len(key))}
		}
		require.Equal(t, []int{1, 10, 10}, read("large"))
		require.Equal(t, []int{1, 4, 4, 4, 4, 4}, read("large"))
		for range 10 {
			read("small")
		}
		require.Equal(t, []int{1, 10, 10}, read("small"))
	})
}

// TestBoundsAreLearned uses a server with lower limits than etcd.
func TestBoundsAreLearned(t *testing.T) {
	stubbed(t, func(t *testing.T, s *stub) {
		kv := New(s, Config{JoinReads: true, MaxAlone: 1, MaxOps: 16})
		refused := 0
		for range 20 {
			calls := getAll(t, kv, "k", 33)
			sizes(t, s, func(r *rpc) {
				if len(r.keys()) > 5 {
					refused++
					r.fail(rpctypes.ErrTooManyOps)
					return
				}
				r.answer()
			})
			succeed(t, calls...)
		}
		require.LessOrEqual(t, refused, 8, "a few in flight and as many halvings")
	})
}

func TestTooLargeResponseIsReadInParts(t *testing.T) {
	for text, bound := range map[string]int{
		"grpc: received message larger than max (5 vs. 4)": 4, "trying to send message larger than max (5 vs. 4)": 4,
		"envoy: rate limited": 8,
	} {
		stubbed(t, func(t *testing.T, s *stub) {
			kv := New(s, Config{JoinReads: true, MaxAlone: 1, MaxOps: 8})
			calls := getAll(t, kv, "k", 17)
			sizes(t, s, func(r *rpc) {
				if len(r.keys()) == 8 {
					r.fail(status.Error(codes.ResourceExhausted, text))
					return
				}
				r.answer()
			})
			succeed(t, calls...)
			require.Equal(t, bound, kv.bound(), text)
		})
	}
}

// bound is how many operations the next batch of reads may have.
func (k *KV) bound() int {
	k.reads.mu.Lock()
	defer k.reads.mu.Unlock()
	return k.reads.opsLocked()
}

func TestWhatIsShared(t *testing.T) {
	k := New(newStub(), Config{JoinReads: true, GroupWrites: true})
	end := clientv3.WithRange("l")
	tests := []struct {
		name string
		op   clientv3.Op
		want *dispatcher
	}{
		{"key", clientv3.OpGet("k"), k.reads},
		{"keys only", clientv3.OpGet("k", clientv3.WithKeysOnly()), k.reads},
		{"range of few", clientv3.OpGet("k", end, clientv3.WithLimit(100)), k.reads},
		{"count", clientv3.OpGet("k", clientv3.WithPrefix(), clientv3.WithCountOnly()), k.reads},
		{"range", clientv3.OpGet("k", end), nil},
		{"prefix", clientv3.OpGet("k", clientv3.WithPrefix()), nil},
		{"range of many", clientv3.OpGet("k", end, clientv3.WithLimit(101)), nil},
		{"serializable", clientv3.OpGet("k", clientv3.WithSerializable()), nil},
		{"pinned", clientv3.OpGet("k", clientv3.WithRev(7)), nil},
		{"sorted", clientv3.OpGet("k", clientv3.WithLastRev()...), nil},
		{"filtered", clientv3.OpGet("k", clientv3.WithMinModRev(7)), nil},
		{"put", clientv3.OpPut("k", "v"), k.puts},
		{"put with lease", clientv3.OpPut("k", "v", clientv3.WithLease(7)), k.puts},
		{"large put", clientv3.OpPut("k", strings.Repeat("v", maxGroupedBytes)), nil},
		{"delete", clientv3.OpDelete("k"), k.deletes},
		{"delete of a range", clientv3.OpDelete("k", end), nil},
		{"delete of a prefix", clientv3.OpDelete("k", clientv3.WithPrefix()), nil},
		{"txn", clientv3.OpTxn(nil, []clientv3.Op{clientv3.OpGet("k")}, nil), nil},
	}
	for _, tt := range tests {
		assert.Same(t, tt.want, k.dispatcherOf(tt.op), tt.name)
	}
	for _, cfg := range []Config{{}, {JoinReads: true}, {GroupWrites: true}} {
		k := New(newStub(), cfg)
		assert.Equal(t, cfg.JoinReads, k.dispatcherOf(clientv3.OpGet("k")) != nil)
		assert.Equal(t, cfg.GroupWrites, k.dispatcherOf(clientv3.OpPut("k", "v")) != nil)
	}
}

// TestUnusualCallsAreSentAsTheyAre makes calls that would be shared but for their key or
// context, while another one is in flight.
func TestUnusualCallsAreSentAsTheyAre(t *testing.T) {
	whileReading(t, func(t *testing.T, s *stub, kv *KV, _ *rpc) {
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		leader := clientv3.WithRequireLeader(t.Context())
		get(leader, kv, "k")
		r := s.next(t)
		require.Equal(t, leader, r.ctx)
		r.answer()
		get(t.Context(), kv, "")
		s.next(t).answer()
		get(ended, kv, "k")
		require.Equal(t, ended, s.next(t).ctx)
		s.idle(t)
	})
}

func TestPanicBelowEndsTheRPC(t *testing.T) {
	k := New(panicking{}, shareAll)
	for range 3 {
		require.Panics(t, func() { _, _ = k.Get(t.Context(), "k") })
	}
	require.Zero(t, k.reads.inFlight)
}

type panicking struct{ clientv3.KV }

func (panicking) Do(context.Context, clientv3.Op) (clientv3.OpResponse, error) { panic("no KV") }

// TestCopyHasEveryField guards against fields that a later version of etcd's API has.
func TestCopyHasEveryField(t *testing.T) {
	kv := func() *mvccpb.KeyValue {
		return &mvccpb.KeyValue{Key: []byte("k"), Value: []byte("v"), CreateRevision: 1, ModRevision: 2, Version: 3, Lease: 4}
	}
	full := &pb.RangeResponse{
		Header: &pb.ResponseHeader{ClusterId: 1, MemberId: 2, Revision: 3, RaftTerm: 4},
		Kvs:    []*mvccpb.KeyValue{kv(), kv()}, More: true, Count: 5,
	}
	unchanged := proto.CloneOf(full)
	for _, m := range []proto.Message{full, full.Header, full.Kvs[0]} {
		fields := m.ProtoReflect().Descriptor().Fields()
		for i := range fields.Len() {
			assert.True(t, m.ProtoReflect().Has(fields.Get(i)), "%s is new", fields.Get(i).FullName())
		}
	}
	for _, m := range []*pb.RangeResponse{full, {}, {Header: &pb.ResponseHeader{}, Kvs: []*mvccpb.KeyValue{{}}}} {
		own := (*pb.RangeResponse)(copyOf((*clientv3.GetResponse)(m)))
		assert.True(t, proto.Equal(m, own), "%v is not %v", own, m)
	}
	own := copyOf((*clientv3.GetResponse)(full))
	own.Kvs[0].Key = append(own.Kvs[0].Key, "overwrites what is behind"...)
	assert.Equal(t, "v", string(own.Kvs[0].Value))
	own.Header.Revision, own.Kvs[0].Value[0], own.Kvs[1].Key[0] = 0, 'x', 'x'
	own.Kvs[1].Version = 0
	assert.True(t, proto.Equal(unchanged, full), "%v shares memory with its copy", full)

	full.Kvs = slices.Repeat(full.Kvs, 100)
	allocs := testing.AllocsPerRun(10, func() { copyOf((*clientv3.GetResponse)(full)) })
	assert.LessOrEqual(t, allocs, 10.0, "their number does not grow with the keys")
}

// TestSplitChecksTheKinds has a response of each kind for each kind of operation.
func TestSplitChecksTheKinds(t *testing.T) {
	parts := []*pb.ResponseOp{
		{Response: &pb.ResponseOp_ResponseRange{ResponseRange: &pb.RangeResponse{}}},
		{Response: &pb.ResponseOp_ResponsePut{ResponsePut: &pb.PutResponse{}}},
		{Response: &pb.ResponseOp_ResponseDeleteRange{ResponseDeleteRange: &pb.DeleteRangeResponse{}}},
		{Response: &pb.ResponseOp_ResponseTxn{ResponseTxn: &pb.TxnResponse{}}},
		{},
	}
	for i, op := range []clientv3.Op{clientv3.OpGet("k"), clientv3.OpPut("k", ""), clientv3.OpDelete("k")} {
		for j, part := range parts {
			_, err := split(&clientv3.TxnResponse{Responses: []*pb.ResponseOp{part}}, []clientv3.Op{op})
			assert.Equal(t, i == j, err == nil, "%v for operation %d", part, i)
		}
	}
}
