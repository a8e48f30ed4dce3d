package concurrency_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strconv"
	"sync"
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

var allLevels = []Isolation{SerializableSnapshot, Serializable, RepeatableReads, ReadCommitted}

// conflictFree are the levels without lost updates.
var conflictFree = allLevels[:3]

func onLevels(t *testing.T, levels []Isolation, test func(t *testing.T, f fake, level STMOption)) {
	t.Helper()
	for _, level := range levels {
		t.Run(strconv.Itoa(int(level)), func(t *testing.T) {
			withFake(t, 3, func(t *testing.T, f fake) { test(t, f, WithIsolation(level)) })
		})
	}
}

// reads returns the number of received transactions that only read.
func (f fake) reads() (n int) {
	for _, r := range f.Calls("Txn") {
		if txn := r.Request().(*pb.TxnRequest); len(txn.Compare) == 0 && txn.Success[0].GetRequestRange() != nil {
			n++
		}
	}
	return n
}

func TestSTMReadsAndWrites(t *testing.T) {
	onLevels(t, allLevels, func(t *testing.T, f fake, level STMOption) {
		f.put(t, "old", "1")
		f.put(t, "gone", "2")
		rev, lease := f.Get("old").ModRevision, f.session(t).Lease()
		resp, err := NewSTM(f.client, func(s STM) error {
			assert.Empty(t, s.Get())
			assert.Empty(t, s.Get("missing"))
			assert.Zero(t, s.Rev("missing"))
			assert.Equal(t, "1", s.Get("old"))
			assert.Equal(t, rev, s.Rev("old"))
			s.Put("old", "3")
			assert.Equal(t, "3", s.Get("old"))
			assert.Equal(t, rev, s.Rev("old"), "a pending put has no revision")
			s.Del("gone")
			assert.Empty(t, s.Get("gone"))
			s.Put("new", "first")
			s.Put("new", "last")
			s.Put("leased", "v", clientv3.WithLease(lease))
			s.Put("never", "x")
			s.Del("never")
			return nil
		}, level)
		require.NoError(t, err)
		require.True(t, resp.Succeeded)
		require.Equal(t, f.Revision(), resp.Header.Revision)
		require.Equal(t, "3", string(f.Get("old").Value))
		require.Equal(t, "last", string(f.Get("new").Value))
		require.Equal(t, int64(lease), f.Get("leased").Lease)
		require.Nil(t, f.Get("gone"))
		require.Nil(t, f.Get("never"))

		resp = clienttest.Must(NewSTM(f.client, func(STM) error { return nil }, level))
		require.True(t, resp.Succeeded)
		require.Equal(t, f.Revision(), resp.Header.Revision)
	})
}

func TestSTMGetOfSeveralKeys(t *testing.T) {
	onLevels(t, allLevels, func(t *testing.T, f fake, level STMOption) {
		f.put(t, "a", "1")
		f.put(t, "b", "2")
		_, err := NewSTM(f.client, func(s STM) error {
			assert.Equal(t, "2", s.Get("b"))
			assert.Equal(t, "1", s.Get("a", "b", "c", "c"), "the value of the first key")
			s.Put("b", "3")
			assert.Equal(t, "1", s.Get("a", "b"))
			assert.Equal(t, "3", s.Get("b", "a"))
			assert.Empty(t, s.Get("c", "d"))
			return nil
		}, level)
		require.NoError(t, err)
		require.Equal(t, 3, f.reads(), "one request each for b, for a and c, and for d")
	})
}

// Prefetched keys take one request, and are protected like keys that were read.
func TestSTMPrefetch(t *testing.T) {
	onLevels(t, conflictFree, func(t *testing.T, f fake, level STMOption) {
		f.put(t, "a", "1")
		runs := 0
		_, err := NewSTM(f.client, func(s STM) error {
			if runs++; runs == 1 {
				f.put(t, "c", "changed")
			}
			s.Put("sum", s.Get("a")+s.Get("b"))
			return nil
		}, level, WithPrefetch("a"), WithPrefetch("b", "c"))
		require.NoError(t, err)
		require.Equal(t, 2, runs)
		require.Equal(t, 3, f.Count("Txn"), "one read, and one commit per run")
		require.Equal(t, "1", string(f.Get("sum").Value))
	})
}

func TestSTMLevels(t *testing.T) {
	type run = func(context.Context, *clientv3.Client, func(STM) error) (*clientv3.TxnResponse, error)
	at := func(level Isolation) run {
		return func(ctx context.Context, c *clientv3.Client, f func(STM) error) (*clientv3.TxnResponse, error) {
			return NewSTM(c, f, WithIsolation(level), WithAbortContext(ctx))
		}
	}
	for _, tt := range []struct {
		runs []run
		// Number of runs after others changed: a key that was read, a key that was only written.
		afterRead, afterWrite int
		// snapshot: all reads are at one revision.
		snapshot bool
	}{
		{[]run{at(SerializableSnapshot)}, 2, 2, true},
		{[]run{at(Serializable), NewSTMSerializable}, 2, 1, true},
		{[]run{at(RepeatableReads), NewSTMRepeatable}, 2, 1, false},
		{[]run{at(ReadCommitted), NewSTMReadCommitted}, 1, 1, false},
	} {
		for _, run := range tt.runs {
			withFake(t, 1, func(t *testing.T, f fake) {
				runs := func(changed string) (n int) {
					_, err := run(t.Context(), f.client, func(s STM) error {
						s.Get("read")
						if n++; n == 1 {
							f.put(t, changed, "changed")
						}
						s.Put("written", "by the transaction")
						return nil
					})
					require.NoError(t, err)
					return n
				}
				require.Equal(t, tt.afterRead, runs("read"))
				require.Equal(t, tt.afterWrite, runs("written"))
				require.Equal(t, 1, runs("unrelated"))

				f.put(t, "b", "before")
				var first, again string
				_, err := run(t.Context(), f.client, func(s STM) error {
					s.Get("a")
					f.put(t, "b", "after")
					first = s.Get("b")
					f.put(t, "b", "later")
					again = s.Get("b")
					return errors.New("enough")
				})
				require.EqualError(t, err, "enough")
				require.Equal(t, tt.snapshot, first == "before", first)
				require.Equal(t, first, again, "a repeated read returns the same value")

				_, err = run(clienttest.Ended(t), f.client, func(STM) error { return nil })
				require.Equal(t, context.Canceled, err)
			})
		}
	}
}

// After a conflict all reads are at one revision too, although some values come from the failed commit and others are
// read anew.
func TestSTMShowsOneRevisionAfterAConflict(t *testing.T) {
	onLevels(t, conflictFree[:2], func(t *testing.T, f fake, level STMOption) {
		both := func() {
			_, err := f.client.Txn(t.Context()).Then(
				clientv3.OpPut("a", strconv.FormatInt(f.Revision(), 10)),
				clientv3.OpPut("b", strconv.FormatInt(f.Revision(), 10)),
			).Commit()
			require.NoError(t, err)
		}
		both()
		runs := 0
		_, err := NewSTM(f.client, func(s STM) error {
			runs++
			if runs == 1 {
				s.Get("a")
				both()
				return nil
			}
			if runs == 2 {
				both()
			}
			b := s.Get("b")
			assert.Equal(t, b, s.Get("a"))
			return nil
		}, level)
		require.NoError(t, err)
		require.Equal(t, 3, runs)
	})
}

// committed is what one transaction read and wrote.
type committed struct {
	rev    int64
	wrote  bool // whether it made a revision
	reads  map[string]string
	writes map[string]string // "" for a delete
}

// randomTransaction reads and writes random keys of a small set.
func randomTransaction(t *testing.T, f fake, rnd *rand.Rand, name string, level STMOption) committed {
	var c committed
	key := func() string { return "k" + strconv.Itoa(rnd.IntN(5)) }
	steps := 1 + rnd.IntN(6)
	seed := rnd.Uint64()
	var options []STMOption
	if rnd.IntN(3) == 0 {
		options = append(options, WithPrefetch(key(), key()))
	}
	resp, err := NewSTM(f.client, func(s STM) error {
		c = committed{reads: map[string]string{}, writes: map[string]string{}}
		rnd := rand.New(rand.NewPCG(seed, 1)) // the same choices in each run
		for step := range steps {
			key := "k" + strconv.Itoa(rnd.IntN(5))
			switch op := rnd.IntN(8); {
			case op < 4:
				value := s.Get(key)
				if own, ok := c.writes[key]; ok {
					assert.Equal(t, own, value, "a read returns the own write")
				} else if before, ok := c.reads[key]; ok {
					assert.Equal(t, before, value, "a repeated read returns the same value")
				} else {
					c.reads[key] = value
				}
			case op < 7:
				c.writes[key] = fmt.Sprint(name, ".", step)
				s.Put(key, c.writes[key])
			default:
				c.writes[key] = ""
				s.Del(key)
			}
		}
		return nil
	}, append(options, level)...)
	assert.NoError(t, err)
	c.rev = resp.Header.Revision
	for _, r := range resp.Responses {
		c.wrote = c.wrote || r.GetResponsePut() != nil || r.GetResponseDeleteRange().GetDeleted() > 0
	}
	return c
}

// TestSTMIsSerializable runs random transactions concurrently, and then replays them in the order of their revisions on
// a map: each must have read the values of the map, and the final states must be equal.
func TestSTMIsSerializable(t *testing.T) {
	const workers, transactions = 5, 40
	onLevels(t, conflictFree, func(t *testing.T, f fake, level STMOption) {
		history := make([][]committed, workers)
		var running sync.WaitGroup
		for w := range workers {
			running.Go(func() {
				rnd := rand.New(rand.NewPCG(uint64(w), 2))
				for i := range transactions {
					name := fmt.Sprint(w, ".", i)
					history[w] = append(history[w], randomTransaction(t, f, rnd, name, level))
				}
			})
		}
		running.Wait()

		order := slices.Concat(history...)
		slices.SortFunc(order, func(a, b committed) int {
			switch {
			case a.rev != b.rev || a.wrote == b.wrote:
				return cmp.Compare(a.rev, b.rev)
			case a.wrote:
				return -1 // the other one read the state after it
			default:
				return 1
			}
		})
		state := map[string]string{}
		var checked int
		for i, c := range order {
			for key, value := range c.reads {
				require.Equal(t, state[key], value, "transaction %d of revision %d: %s", i, c.rev, key)
				checked++
			}
			for key, value := range c.writes {
				state[key] = value
			}
		}
		require.Greater(t, checked, workers*transactions/2)
		for key, value := range state {
			require.Equal(t, value, string(f.Get(key).GetValue()), key)
		}
	})
}

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
			time.Sleep(time.Millisecond)
			return nil
		}, level, WithAbortContext(grpctest.Within(t, time.Second)))
		require.Equal(t, context.DeadlineExceeded, err)
		require.Less(t, f.Count("Txn"), 100, "it pauses after a conflict")
		require.Greater(t, f.reads(), 1, "what others may have changed meanwhile is read again")
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
