package behaviours

import (
	"context"
	"sync/atomic"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	quorate "github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/idempotent"
	"github.com/quorate/quorate/lab/behaviours/transcript"
)

// idempotentWrites drops the answer to every write. Each is executed once, and gets the response of that execution. The official
// client has no such writer.
func idempotentWrites(ctx context.Context, s Site, _ *transcript.Log) {
	var lose atomic.Bool // the answer to the next transaction
	cfg := s.config()
	cfg.DialOptions = []grpc.DialOption{grpc.WithChainUnaryInterceptor(
		func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
			err := invoke(ctx, method, req, reply, cc, opts...)
			if err == nil && method == pb.KV_Txn_FullMethodName && lose.CompareAndSwap(true, false) {
				return status.Error(codes.Unavailable, "the answer is lost")
			}
			return err
		})}
	client, is := any(ok(clientv3.New(cfg))).(*quorate.Client)
	want(is, "the client has no idempotent writes")
	kv := ok(idempotent.New(ctx, client, idempotent.Config{}))
	for range 2 {
		lose.Store(true)
		put := ok(kv.Put(ctx, "k", "v", quorate.WithPrevKV()))
		want(put.PrevKv == nil, "put twice: before it was %v", put.PrevKv)
		lose.Store(true)
		txn := ok(kv.Txn(ctx).If(quorate.Compare(quorate.Version("k"), "=", 2)).
			Then(quorate.OpPut("k", "x")).Else(quorate.OpGet("k"), quorate.OpPut("k", "w")).Commit())
		want(!txn.Succeeded && string(txn.Responses[0].GetResponseRange().Kvs[0].Value) == "v", "transaction: %v", txn)
		lose.Store(true)
		deleted := ok(kv.Delete(ctx, "k", quorate.WithPrevKV()))
		want(len(deleted.PrevKvs) == 1 && deleted.PrevKvs[0].Version == 2, "delete: %v", deleted)
		want(!lose.Load(), "no answer was lost")
	}
	must(kv.Close())
}
