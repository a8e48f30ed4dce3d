package behaviours

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	quorate "github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/idempotent"
	"github.com/quorate/quorate/internal/pause"
	"github.com/quorate/quorate/lab/behaviours/transcript"
	"github.com/quorate/quorate/lab/link"
	"github.com/quorate/quorate/lab/servers/site"
)

// restored takes a backup, writes more, and restores the backup. A watch from before the restore is not silent: it ends, or
// delivers what is written now.
func restored(ctx context.Context, s Site, _ *transcript.Log) {
	c := s.client()
	create(ctx, c, "/restored/a", "1")
	s.do(ctx, site.Backup)
	untilRead(ctx, c, "/restored/a")
	watch := created(ctx, c, "/restored/", clientv3.WithPrefix())
	for i := range 100 {
		create(ctx, c, fmt.Sprintf("/restored/lost/%d", i), "1")
	}
	s.do(ctx, site.Restore)
	untilRead(ctx, c, "/restored/a")
	want(ok(c.Get(ctx, "/restored/", clientv3.WithPrefix())).Count == 1, "what was lost is there")
	create(ctx, c, "/restored/new", "1")
	for {
		resp, open := await(watch, "the watch")
		must(ctx.Err())
		if !open || resp.Err() != nil || slices.ContainsFunc(resp.Events, func(e *clientv3.Event) bool { return string(e.Kv.Key) == "/restored/new" }) {
			return
		}
	}
}

// syncProxied uses a proxy in front of a server whose advertised URL cannot be reached.
func syncProxied(ctx context.Context, s Site, _ *transcript.Log) {
	proxy := ok(link.Listen(strings.TrimPrefix(s.Direct, "http://")))
	direct := s
	direct.Endpoints = []string{"http://" + proxy.Addr()}
	c := direct.client()
	create(ctx, c, "/sync/a", "1")
	s.do(ctx, site.Cut)
	withDeadline(ctx, 5*time.Second, func(ctx context.Context) { _ = c.Sync(ctx) }) // whatever it returns, the client keeps working
	withDeadline(ctx, 5*time.Second, func(ctx context.Context) {
		want(ok(c.Get(ctx, "/sync/a")).Count == 1, "the key is gone")
	})
}

// kubernetes does what an API server does: it lists, watches from the revision of the list, and creates, updates and
// deletes 1,000 objects by 8 writers, while the server is killed and restarted. Every change is seen once, in order, and
// leads from the object's state before to the one after.
func kubernetes(ctx context.Context, s Site, _ *transcript.Log) {
	const objects, writers = 1_000, 8
	c := s.client()
	listed := ok(c.Get(ctx, "/registry/", clientv3.WithPrefix(), clientv3.WithLimit(500)))
	watch := c.Watch(clientv3.WithRequireLeader(ctx), "/registry/", clientv3.WithPrefix(), clientv3.WithPrevKV(),
		clientv3.WithProgressNotify(), clientv3.WithRev(listed.Header.Revision+1))

	each(writers+1, func(w int) {
		if w == writers {
			for range 2 {
				must(pause.For(ctx, 500*time.Millisecond))
				restart(ctx, s)
			}
			return
		}
		for i := w; i < objects; i += writers {
			key := fmt.Sprintf("/registry/pods/%d", i)
			write(ctx, c, key, "created")
			write(ctx, c, key, "updated")
			if i%2 == 0 {
				write(ctx, c, key, "")
			}
		}
	})
	create(ctx, c, "/registry/z", "end")

	seen, deleted, last := make(map[string]int64), 0, int64(0) // the revision of each object, as the watch has it
	all := eventsUntil(watch, func(events []*clientv3.Event) bool {
		return len(events) > 0 && string(events[len(events)-1].Kv.Key) == "/registry/z"
	})
	for _, e := range all {
		key, rev := string(e.Kv.Key), e.Kv.ModRevision
		want(rev > last, "revision %d after %d", rev, last)
		want(e.PrevKv.GetModRevision() == seen[key], "%s: revision %d follows %d, the watch saw %d before", key, rev, e.PrevKv.GetModRevision(), seen[key])
		last, seen[key] = rev, rev
		if e.Type == clientv3.EventTypeDelete {
			delete(seen, key)
			deleted++
		}
	}
	delete(seen, "/registry/z")
	end := ok(c.Get(ctx, "/registry/pods/", clientv3.WithPrefix()))
	want(deleted == objects/2 && len(seen) == objects/2 && len(end.Kvs) == objects/2,
		"%d deleted, %d left in the watch, %d stored", deleted, len(seen), len(end.Kvs))
	for _, kv := range end.Kvs {
		want(seen[string(kv.Key)] == kv.ModRevision, "%s is at %d, the watch at %d", kv.Key, kv.ModRevision, seen[string(kv.Key)])
	}
}

// write brings an object to a value, "" for none, by a transaction on its revision. After an error it reads the object to learn
// what happened.
func write(ctx context.Context, c *clientv3.Client, key, value string) {
	until(ctx, func(ctx context.Context) error {
		got, err := c.Get(ctx, key)
		if err != nil {
			return err
		}
		var rev int64
		var before string
		for _, kv := range got.Kvs {
			rev, before = kv.ModRevision, string(kv.Value)
		}
		if before == value { // by an earlier try
			return nil
		}
		op := clientv3.OpPut(key, value)
		if value == "" {
			op = clientv3.OpDelete(key)
		}
		resp, err := c.Txn(ctx).If(clientv3.Compare(clientv3.ModRevision(key), "=", rev)).Then(op).Else(clientv3.OpGet(key)).Commit()
		if err == nil && !resp.Succeeded {
			err = fmt.Errorf("%s is not at %d any more", key, rev)
		}
		return err
	})
}

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
