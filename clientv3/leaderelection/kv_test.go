package leaderelection_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/internal/clienttest"
	. "github.com/quorate/quorate/clientv3/leaderelection"
	"github.com/quorate/quorate/clientv3/mock/fakeetcd"
	"github.com/quorate/quorate/retry"
)

func TestResponsesAreThoseOfPlainCalls(t *testing.T) {
	clienttest.RequirePlainResponses(t, func(t *testing.T, _ *fakeetcd.Cluster, client *clientv3.Client) (clientv3.KV, func()) {
		terms := make(chan *Term)
		go func() {
			_ = Run(t.Context(), client, Config{Name: "office"}, func(ctx context.Context, term *Term) error {
				terms <- term
				<-ctx.Done()
				return nil
			})
		}()
		return (<-terms).KV(), nil
	})
}

func TestFencedCallsAfterTheTerm(t *testing.T) {
	withRig(t, func(t *testing.T, r *rig) {
		_, l := r.leads(t, Config{ReturnOnLoss: true})
		kv := l.term.KV()
		require.PanicsWithValue(t, "cannot call If after Then!", func() { kv.Txn(t.Context()).Then().If() })
		require.PanicsWithValue(t, "cannot call Else twice!", func() { kv.Txn(t.Context()).Else().Else() })
		_, err := kv.Compact(t.Context(), 1)
		require.ErrorContains(t, err, "cannot be fenced")
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
		_, err = kv.Get(t.Context(), "a")
		require.NoError(t, err, "reads are not fenced")
		l.leave <- nil
		l.run.ends(t)
	})
}

// A member that lags, and has not applied the put of the key, ends no term: transactions that only read are linearizable.
func TestReadsOfAMemberThatLags(t *testing.T) {
	withRig(t, func(t *testing.T, r *rig) {
		_, l := r.leads(t, Config{ReturnOnLoss: true})
		r.On("Txn", func(call *fakeetcd.Call) {
			txn := call.Request.(*pb.TxnRequest)
			for _, op := range append(txn.Success, txn.Failure...) {
				if !op.GetRequestRange().GetSerializable() {
					return
				}
			}
			call.Answer(&pb.TxnResponse{Header: &pb.ResponseHeader{Revision: 1}}, nil)
		})
		local := clientv3.OpGet("a", clientv3.WithSerializable())
		_, err := l.term.KV().Txn(t.Context()).Then(local, local).Commit()
		require.NoError(t, err)
		require.NoError(t, l.term.Err())
		l.leave <- nil
		l.run.ends(t)
	})
}

// A refused write is how a term learns that its key is gone, before the watch does.
func TestRefusedWriteEndsTheTerm(t *testing.T) {
	withRig(t, func(t *testing.T, r *rig) {
		p, l := r.leads(t, Config{ReturnOnLoss: true})
		synctest.Wait()
		require.NoError(t, p.Watcher.Close())
		clienttest.Must(r.process(t).Delete(t.Context(), l.term.Key()))
		synctest.Wait()
		require.NoError(t, l.ctx.Err())
		_, err := l.term.KV().Put(t.Context(), "a", "1")
		require.Equal(t, error(l.lost(t)), err)
		require.ErrorIs(t, err, ErrKeyDeleted)
		l.leave <- nil
		require.ErrorIs(t, l.run.ends(t), ErrKeyDeleted)
	})
}
