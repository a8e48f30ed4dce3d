package leasing

import (
	"context"
	"errors"
	"strings"
	"sync"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/concurrency"
	"github.com/quorate/quorate/clientv3/internal/optxn"
	"github.com/quorate/quorate/clientv3/internal/reply"
	"github.com/quorate/quorate/clientv3/internal/semantics"
)

// get serves from the cache if possible, and otherwise from the server; then it
// also acquires the key, if allowed.
func (k *kv) get(ctx context.Context, op clientv3.Op) (*clientv3.GetResponse, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	key := string(op.KeyBytes())
	if !cacheable(op) || k.isLeasingKey(key) {
		return k.read(ctx, op)
	}
	if resp := k.cache.get(key, op); resp != nil {
		return resp, nil
	}
	if op.IsSerializable() {
		return k.read(ctx, op)
	}
	a := k.cache.beginAcquire(key)
	if a == nil {
		return k.read(ctx, op)
	}
	resp, err := k.acquire(ctx, a)
	if err != nil {
		// The read is safe to repeat, whatever happened to the leasing key.
		return k.read(ctx, op)
	}
	return answer(resp.Header, optxn.Key(resp, 0), op), nil
}

// cacheable reports whether the cache can serve op: it holds only the present state
// of single keys.
func cacheable(op clientv3.Op) bool {
	return op.IsGet() && len(op.KeyBytes()) > 0 && len(op.RangeBytes()) == 0 &&
		op.Rev() == 0 && op.Limit() >= 0 && op.IsSortOptionValid()
}

func (k *kv) read(ctx context.Context, op clientv3.Op) (*clientv3.GetResponse, error) {
	resp, err := k.remote.Do(ctx, op)
	if err != nil {
		return nil, err
	}
	k.cache.observe(resp.Get().Header)
	return resp.Get(), nil
}

// acquire reads a key and, in the same transaction, creates its leasing key. It
// does not if there is one, or if the key is attached to a lease: such a key can be
// deleted without its owner's consent.
func (k *kv) acquire(ctx context.Context, a *acquisition) (*clientv3.TxnResponse, error) {
	lkey := k.leasingKey(a.key)
	resp, err := k.remote.Txn(ctx).
		If(
			clientv3.Compare(clientv3.CreateRevision(lkey), "=", 0),
			clientv3.Compare(clientv3.LeaseValue(a.key), "=", clientv3.NoLease),
		).
		Then(clientv3.OpGet(a.key), clientv3.OpPut(lkey, "", clientv3.WithLease(a.session.lease))).
		Else(clientv3.OpGet(a.key), clientv3.OpGet(lkey)).
		Commit()
	if err != nil {
		k.cache.endAcquire(a)
		return nil, err
	}
	k.cache.observe(resp.Header)
	if !resp.Succeeded {
		l := optxn.Key(resp, 1)
		if k.cache.endAcquire(a) && l != nil && clientv3.LeaseID(l.Lease) == a.session.lease {
			// Created by an acquisition with a lost response, or about to be
			// released. It cannot be adopted: see doc.go, "Fences".
			k.releases.add(leasingKey{name: lkey, rev: l.CreateRevision})
		}
		return resp, nil
	}
	if !k.cache.insert(a, optxn.Key(resp, 0), resp.Header.Revision) && !a.session.aliveAt(k.cache.now()) {
		// The session has ended meanwhile. Its lease may be one of the user, and may live on.
		ctx, cancel := context.WithTimeout(k.client.Ctx(), closeTimeout)
		defer cancel()
		_ = k.deleteKeys(ctx, []leasingKey{{name: lkey, rev: resp.Header.Revision}})
	}
	return resp, nil
}

// answer returns the server's response to a get of one key. The response shares no
// memory with the arguments. A nil item is a key that does not exist.
func answer(header *pb.ResponseHeader, item *mvccpb.KeyValue, op clientv3.Op) *clientv3.GetResponse {
	resp := &clientv3.GetResponse{Header: reply.Header(header, header.GetRevision())}
	if item == nil {
		return resp
	}
	resp.Count = 1
	if op.IsCountOnly() || semantics.Filtered(reply.Selection(op), item) {
		return resp
	}
	own := reply.Key(item, op)
	own.Lease = item.Lease // without the value, too, as before etcd 3.7
	resp.Kvs = []*mvccpb.KeyValue{own}
	return resp
}

func (k *kv) txn(ctx context.Context, op clientv3.Op) (clientv3.OpResponse, error) {
	if err := ctx.Err(); err != nil {
		return clientv3.OpResponse{}, err
	}
	cmps, thenOps, elseOps := op.Txn()
	if resp := k.cache.txn(cmps, thenOps, elseOps); resp != nil {
		return resp.OpResponse(), nil
	}
	if len(optxn.Writes(op)) == 0 {
		resp, err := k.remote.Do(ctx, op)
		if err != nil {
			return clientv3.OpResponse{}, err
		}
		k.cache.observe(resp.Txn().Header)
		return resp, nil
	}
	return k.write(ctx, op)
}

// txn serves a transaction if the cache can decide its comparisons and serve its
// reads, all at one moment. It returns nil if it cannot.
func (c *cache) txn(cmps []clientv3.Cmp, thenOps, elseOps []clientv3.Op) *clientv3.TxnResponse {
	c.mu.Lock()
	defer c.mu.Unlock()
	succeeded, ok := c.decideLocked(cmps)
	if !ok || c.header == nil {
		return nil
	}
	ops := thenOps
	if !succeeded {
		ops = elseOps
	}
	responses := make([]*pb.ResponseOp, len(ops))
	for i, op := range ops {
		if !cacheable(op) {
			return nil
		}
		e := c.readableLocked(string(op.KeyBytes()))
		if e == nil {
			return nil
		}
		// The headers in a transaction's response have only a revision.
		found := answer(&pb.ResponseHeader{Revision: c.header.GetRevision()}, e.item, op)
		responses[i] = &pb.ResponseOp{Response: &pb.ResponseOp_ResponseRange{ResponseRange: (*pb.RangeResponse)(found)}}
	}
	if !c.servingLocked() {
		return nil
	}
	return &clientv3.TxnResponse{
		Header:    reply.Header(c.header, c.header.GetRevision()),
		Succeeded: succeeded,
		Responses: responses,
	}
}

// decideLocked evaluates the comparisons that the cache can serve: one that does
// not hold decides, whatever the others are.
func (c *cache) decideLocked(cmps []clientv3.Cmp) (succeeded, known bool) {
	known = true
	for i := range cmps {
		m := cmps[i].GetCompare()
		e := c.readableLocked(string(m.Key))
		switch {
		case len(m.RangeEnd) > 0 || e == nil:
			known = false
		case !semantics.Holds(m, e.item):
			return false, true
		}
	}
	return true, known
}

// kv is a clientv3.KV that caches single keys it owns.
type kv struct {
	optxn.KV // all but GetStream and Compact are operations

	client      *clientv3.Client
	remote      clientv3.KV
	prefix      string // of leasing keys
	sessionOpts []concurrency.SessionOption
	cache       *cache
	releases    releaseQueue

	ctx        context.Context // ends with close or the client
	cancel     context.CancelFunc
	background sync.WaitGroup
}

// NewKV returns a KV that serves gets of single keys from a cache, with
// linearizability, and the function that closes it. All clients that write a key
// must do so through a KV of this package, or of the official client, with the same
// prefix, see the package documentation.
//
// Leasing keys are stored below prefix, which must not be empty and should end in a
// separator. With authentication enabled, the user needs permission to read and
// write the whole prefix; otherwise nothing is cached. The options are those of the
// session whose lease the leasing keys are attached to, 60 s by default.
//
// NewKV returns when it has a session; it waits while the cluster is unreachable.
// The error is a permanent one, or that of the client's context or the one in the
// options.
//
// The returned function is never nil and must be called. It releases all leasing
// keys by revoking the session's lease; if no member answers within a second, they
// expire with the lease. With concurrency.WithLease it does not revoke the lease
// but deletes the leasing keys in batches. Afterwards the KV fails writes with
// context.Canceled, and reads from the server.
func NewKV(cl *clientv3.Client, prefix string, opts ...concurrency.SessionOption) (clientv3.KV, func(), error) {
	if prefix == "" {
		return nil, func() {}, errors.New(
			"leasing: the prefix of the leasing keys is empty: they would be the keys themselves; name one, such as \"_leasing/\"")
	}
	k := newKV(cl, prefix, opts)
	ready := make(chan error, 1)
	k.background.Go(func() { k.keepSession(ready) })
	k.background.Go(k.release)
	if err := <-ready; err != nil {
		k.close()
		return nil, func() {}, err
	}
	return k, k.close, nil
}

func newKV(cl *clientv3.Client, prefix string, opts []concurrency.SessionOption) *kv {
	k := &kv{
		client:      cl,
		remote:      cl.KV,
		prefix:      prefix,
		sessionOpts: opts,
		cache:       newCache(prefix),
		releases:    releaseQueue{pending: map[string]int64{}, more: make(chan struct{}, 1)},
	}
	k.KV = optxn.Over(cl.KV, k.do)
	k.ctx, k.cancel = context.WithCancel(cl.Ctx())
	return k
}

func (k *kv) close() {
	k.cancel()
	k.background.Wait()
}

// GetStream is not supported: its error has codes.Unimplemented.
func (k *kv) GetStream(context.Context, string, ...clientv3.OpOption) (clientv3.GetStreamChan, error) {
	return nil, status.Error(codes.Unimplemented, "leasing: GetStream is not supported; call it on the client")
}

func (k *kv) do(ctx context.Context, op clientv3.Op) (clientv3.OpResponse, error) {
	switch {
	case op.IsGet():
		resp, err := k.get(ctx, op)
		return resp.OpResponse(), err
	case op.IsPut() || op.IsDelete():
		return k.write(ctx, op)
	case op.IsTxn():
		return k.txn(ctx, op)
	default:
		return clientv3.OpResponse{}, errors.New("leasing: Do of an Op that none of OpGet, OpPut, OpDelete and OpTxn made")
	}
}

func (k *kv) leasingKey(key string) string { return k.prefix + key }

// isLeasingKey reports whether a key is itself a leasing key. Leasing keys change
// without a guard, so they are never cached.
func (k *kv) isLeasingKey(key string) bool { return strings.HasPrefix(key, k.prefix) }
