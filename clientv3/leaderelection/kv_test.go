package leaderelection_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/quorate/quorate/clientv3"
	. "github.com/quorate/quorate/clientv3/leaderelection"
	"github.com/quorate/quorate/retry"
)

// message returns the response that is set.
func message(r clientv3.OpResponse) proto.Message {
	switch {
	case r.Put() != nil:
		return (*pb.PutResponse)(r.Put())
	case r.Get() != nil:
		return (*pb.RangeResponse)(r.Get())
	case r.Del() != nil:
		return (*pb.DeleteRangeResponse)(r.Del())
	default:
		return (*pb.TxnResponse)(r.Txn())
	}
}

// The same calls over a fenced KV and over a plain one, each with a cluster of its own, have the same responses.
func TestResponsesAreThoseOfPlainCalls(t *testing.T) {
	exists := func(key string) clientv3.Cmp { return clientv3.Compare(clientv3.CreateRevision(key), ">", 0) }
	ops := func(ops ...clientv3.Op) []clientv3.Op { return ops }
	put, get, del := clientv3.OpPut, clientv3.OpGet, clientv3.OpDelete
	do := func(op clientv3.Op) func(context.Context, clientv3.KV) (proto.Message, error) {
		return func(ctx context.Context, kv clientv3.KV) (proto.Message, error) {
			resp, err := kv.Do(ctx, op)
			return message(resp), err
		}
	}
	calls := []func(context.Context, clientv3.KV) (proto.Message, error){
		func(ctx context.Context, kv clientv3.KV) (proto.Message, error) {
			resp, err := kv.Put(ctx, "a", "1")
			return (*pb.PutResponse)(resp), err
		},
		func(ctx context.Context, kv clientv3.KV) (proto.Message, error) {
			resp, err := kv.Put(ctx, "a", "2", clientv3.WithPrevKV())
			return (*pb.PutResponse)(resp), err
		},
		do(put("b", "1")),
		do(get("", clientv3.WithPrefix(), clientv3.WithMinCreateRev(3))),
		do(clientv3.OpTxn(nil, ops(put("c", "1"), get("a"), put("d", "1", clientv3.WithPrevKV())), ops(put("x", "1")))),
		do(clientv3.OpTxn([]clientv3.Cmp{exists("a")}, ops(put("e", "1"), get("a")), ops(put("x", "1")))),
		do(clientv3.OpTxn([]clientv3.Cmp{exists("x")}, ops(put("x", "1")), ops(del("e", clientv3.WithPrevKV())))),
		do(clientv3.OpTxn([]clientv3.Cmp{exists("a")}, ops(clientv3.OpTxn([]clientv3.Cmp{exists("x")}, nil, ops(put("f", "1")))), nil)),
		do(clientv3.OpTxn([]clientv3.Cmp{exists("a")}, ops(get("a")), nil)),
		do(clientv3.OpTxn([]clientv3.Cmp{exists("x")}, ops(put("x", "1")), nil)),
		do(clientv3.OpTxn(nil, nil, nil)),
		func(ctx context.Context, kv clientv3.KV) (proto.Message, error) {
			resp, err := kv.Txn(ctx).If(exists("a"), exists("x")).Then(put("x", "1")).Else(put("g", "1"), get("g")).Commit()
			return (*pb.TxnResponse)(resp), err
		},
		func(ctx context.Context, kv clientv3.KV) (proto.Message, error) {
			resp, err := kv.Txn(ctx).Then(put("h", "1")).Commit()
			return (*pb.TxnResponse)(resp), err
		},
		func(ctx context.Context, kv clientv3.KV) (proto.Message, error) {
			resp, err := kv.Txn(ctx).Else(put("x", "1")).Commit()
			return (*pb.TxnResponse)(resp), err
		},
		func(ctx context.Context, kv clientv3.KV) (proto.Message, error) {
			resp, err := kv.Delete(ctx, "a", clientv3.WithRange("d"), clientv3.WithPrevKV())
			return (*pb.DeleteRangeResponse)(resp), err
		},
		do(del("nothing")),
		func(ctx context.Context, kv clientv3.KV) (proto.Message, error) {
			resp, err := kv.Get(ctx, "h")
			return (*pb.RangeResponse)(resp), err
		},
		func(ctx context.Context, kv clientv3.KV) (proto.Message, error) {
			resp, err := kv.Put(ctx, "", "1")
			return (*pb.PutResponse)(resp), err
		},
	}
	type answer struct {
		message proto.Message
		err     error
	}
	answers := func(fenced bool) (all []answer) {
		withRig(t, func(t *testing.T, r *rig) {
			p := r.process(t)
			running := p.run(t, Config{})
			l := running.leads(t)
			kv := p.KV
			if fenced {
				kv = l.term.KV()
			}
			for _, call := range calls {
				resp, err := call(t.Context(), kv)
				all = append(all, answer{resp, err})
			}
			l.leave <- nil
			require.NoError(t, running.ends(t))
		})
		return all
	}
	plain, fenced := answers(false), answers(true)
	for i := range calls {
		require.Equal(t, plain[i].err, fenced[i].err, "call %d", i)
		if plain[i].err == nil {
			member := protocmp.IgnoreFields(&pb.ResponseHeader{}, "member_id")
			require.Empty(t, cmp.Diff(plain[i].message, fenced[i].message, protocmp.Transform(), member), "call %d", i)
		}
	}
}

func TestFencedCallsAfterTheTerm(t *testing.T) {
	withRig(t, func(t *testing.T, r *rig) {
		p := r.process(t)
		running := p.run(t, Config{ReturnOnLoss: true})
		l := running.leads(t)
		kv := l.term.KV()
		require.NoError(t, p.Lease.Close()) // no one else sees that the key is gone
		require.NoError(t, r.ExpireLease(leaseOf(r, l)))
		for name, call := range map[string]func() error{
			"Put":    func() error { _, err := kv.Put(t.Context(), "a", "1"); return err },
			"Delete": func() error { _, err := kv.Delete(t.Context(), "a"); return err },
			"Do":     func() error { _, err := kv.Do(t.Context(), clientv3.OpPut("a", "1")); return err },
			"Txn": func() error {
				_, err := kv.Txn(t.Context()).If(clientv3.Compare(clientv3.CreateRevision("x"), ">", 0)).
					Else(clientv3.OpPut("a", "1")).Commit()
				return err
			},
			"Txn without a comparison": func() error { _, err := kv.Txn(t.Context()).Then(clientv3.OpPut("a", "1")).Commit(); return err },
		} {
			err := call()
			var ended *TermEndedError
			require.ErrorAs(t, err, &ended, name)
			require.Equal(t, retry.OutcomeNotExecuted, retry.OutcomeOf(err), name)
		}
		require.Nil(t, r.Get("a"))
		_, err := kv.Get(t.Context(), "a")
		require.NoError(t, err, "reads are not fenced")
		l.leave <- nil
		running.ends(t)
	})
}

// A refused write is how a term learns that its key is gone, before the watch does.
func TestRefusedWriteEndsTheTerm(t *testing.T) {
	withRig(t, func(t *testing.T, r *rig) {
		p := r.process(t)
		running := p.run(t, Config{ReturnOnLoss: true})
		l := running.leads(t)
		synctest.Wait()
		require.NoError(t, p.Watcher.Close())
		_, err := r.process(t).Delete(t.Context(), l.term.Key())
		require.NoError(t, err)
		synctest.Wait()
		require.NoError(t, l.ctx.Err())
		_, err = l.term.KV().Put(t.Context(), "a", "1")
		require.Equal(t, error(l.lost(t)), err)
		require.ErrorIs(t, err, ErrKeyDeleted)
		l.leave <- nil
		require.ErrorIs(t, running.ends(t), ErrKeyDeleted)
	})
}

func TestFencedTxnKeepsItsOrder(t *testing.T) {
	withRig(t, func(t *testing.T, r *rig) {
		running := r.process(t).run(t, Config{})
		l := running.leads(t)
		kv := l.term.KV()
		require.PanicsWithValue(t, "cannot call If after Then!", func() { kv.Txn(t.Context()).Then().If() })
		require.PanicsWithValue(t, "cannot call Else twice!", func() { kv.Txn(t.Context()).Else().Else() })
		_, err := kv.Compact(t.Context(), 1)
		require.ErrorContains(t, err, "cannot be fenced")
		l.leave <- nil
		require.NoError(t, running.ends(t))
	})
}
