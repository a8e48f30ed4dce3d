package concurrency_test

import (
	"context"
	"errors"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/quorate/quorate/clientv3"
	. "github.com/quorate/quorate/clientv3/concurrency"
	"github.com/quorate/quorate/clientv3/internal/clienttest"
	"github.com/quorate/quorate/clientv3/internal/optxn"
	"github.com/quorate/quorate/clientv3/mock/fakeetcd"
	"github.com/quorate/quorate/internal/grpctest"
	"github.com/quorate/quorate/retry"
)

// A function that does not return nil writes nothing. Its error, its panic and its Goexit, such as that of t.FailNow, reach
// the caller.
func TestSTMOfAFunctionThatFails(t *testing.T) {
	onLevels(t, allLevels, func(t *testing.T, f fake, level STMOption) {
		run := func(end func() error) error {
			resp, err := NewSTM(f.client, func(s STM) error {
				s.Get("a")
				s.Put("k", "v")
				return end()
			}, level)
			require.Nil(t, resp)
			return err
		}
		want := errors.New("no")
		require.Equal(t, want, run(func() error { return want }))
		for _, value := range []any{"oh", errors.New("oh"), 1} {
			require.PanicsWithValue(t, value, func() { _ = run(func() error { panic(value) }) })
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			_ = run(func() error { runtime.Goexit(); return nil })
			assert.Fail(t, "NewSTM returned")
		}()
		<-done
		require.Zero(t, f.PutCount("k"))
	})
}

// The function cannot continue after a failed read, even if it recovers the panic.
func TestSTMThatRecoversAFailedRead(t *testing.T) {
	withFake(t, 1, func(t *testing.T, f fake) {
		f.On("Txn", func(call *fakeetcd.Call) { call.Answer(nil, rpctypes.ErrGRPCPermissionDenied) })
		_, err := NewSTM(f.client, func(s STM) error {
			defer func() { assert.NotNil(t, recover()) }()
			s.Get("k")
			return nil
		})
		require.Equal(t, rpctypes.ErrPermissionDenied, err)
		require.PanicsWithValue(t, "its own", func() {
			_, _ = NewSTM(f.client, func(s STM) error {
				defer func() {
					_ = recover()
					panic("its own")
				}()
				s.Get("k")
				return nil
			})
		})
	})
}

func TestSTMAbortContext(t *testing.T) {
	onLevels(t, allLevels, func(t *testing.T, f fake, level STMOption) {
		ctx, cancel := context.WithCancel(t.Context())
		_, err := NewSTM(f.client, func(s STM) error {
			cancel()
			s.Put("k", "v")
			return nil
		}, level, WithAbortContext(ctx))
		require.Equal(t, context.Canceled, err)
		require.Nil(t, f.Get("k"))

		_, err = NewSTM(f.client, func(s STM) error {
			s.Get("k")
			assert.Fail(t, "the read returned")
			return nil
		}, level, WithAbortContext(ctx))
		require.Equal(t, context.Canceled, err)
	})
	onLevels(t, conflictFree, func(t *testing.T, f fake, level STMOption) {
		_, err := NewSTM(f.client, func(s STM) error {
			s.Get("k")
			f.put(t, "k", "") // it never commits
			time.Sleep(20 * time.Millisecond)
			return nil
		}, level, WithAbortContext(grpctest.Within(t, time.Second)))
		require.Equal(t, context.DeadlineExceeded, err)
	})
}

// A commit with unknown outcome is not repeated, because it could commit twice.
func TestSTMWhoseCommitIsNotAnsweredIsNotRepeated(t *testing.T) {
	onLevels(t, allLevels, func(t *testing.T, f fake, level STMOption) {
		f.Once("Txn", clienttest.LoseAnswer)
		_, err := NewSTM(f.client, func(s STM) error {
			s.Put("k", "v")
			return nil
		}, level)
		require.ErrorAs(t, err, new(*retry.UnknownOutcomeError))
		require.Equal(t, 1, f.PutCount("k"))
	})
	onLevels(t, conflictFree, func(t *testing.T, f fake, level STMOption) {
		plain := f.client.KV
		f.client.KV = optxn.Over(plain, func(ctx context.Context, op clientv3.Op) (clientv3.OpResponse, error) {
			if len(optxn.Writes(op)) > 0 {
				return clientv3.OpResponse{}, &retry.ResponseLostError{Err: rpctypes.ErrCompacted}
			}
			return plain.Do(ctx, op)
		})
		_, err := NewSTM(f.client, func(s STM) error { s.Put("k", s.Get("k")); return nil }, level)
		require.Equal(t, retry.OutcomeUnknown, retry.OutcomeOf(err), "the commit may have found a conflict")
	})
}

// A lagging member has not reached the revision of the snapshot.
func TestSTMOnAMemberThatLags(t *testing.T) {
	onLevels(t, conflictFree[:2], func(t *testing.T, f fake, level STMOption) {
		f.put(t, "b", "1")
		f.On("Txn", func(call *fakeetcd.Call) {
			for _, op := range call.Request.(*pb.TxnRequest).Success {
				if op.GetRequestRange().GetSerializable() {
					call.Answer(nil, rpctypes.ErrGRPCFutureRev)
				}
			}
		})
		_, err := NewSTM(f.client, func(s STM) error {
			s.Get("a")
			assert.Equal(t, "1", s.Get("b"))
			return nil
		}, level)
		require.NoError(t, err)
	})
}

// The snapshot's revision is compacted between two reads: the next run takes a new one.
func TestSTMWhoseSnapshotIsCompacted(t *testing.T) {
	onLevels(t, conflictFree[:2], func(t *testing.T, f fake, level STMOption) {
		runs := 0
		_, err := NewSTM(f.client, func(s STM) error {
			s.Get("a")
			if runs++; runs == 1 {
				f.put(t, "b", "new")
				assert.NoError(t, f.Compact(f.Revision()))
			}
			assert.Equal(t, "new", s.Get("b"))
			return nil
		}, level)
		require.NoError(t, err)
		require.Equal(t, 2, runs)
	})
}

// ReadCommitted compares no keys, so the server's limit does not bound the number of keys read.
func TestSTMReadCommittedReadsManyKeys(t *testing.T) {
	withFake(t, 1, func(t *testing.T, f fake) {
		readMany := func(s STM) error {
			for i := range 300 {
				s.Get(strconv.Itoa(i))
			}
			s.Put("k", "v")
			return nil
		}
		_, err := NewSTM(f.client, readMany, WithIsolation(ReadCommitted))
		require.NoError(t, err)
		_, err = NewSTM(f.client, readMany)
		require.Equal(t, rpctypes.ErrTooManyOps, err)
		before := f.Count("Txn")
		_, err = NewSTM(f.client, func(STM) error { return nil }, WithIsolation(4))
		require.ErrorContains(t, err, "unknown isolation level 4")
		require.Equal(t, before, f.Count("Txn"))
	})
}
