package leasing

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/concurrency"
	"github.com/quorate/quorate/clientv3/internal/optxn"
)

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
		return nil, func() {}, fmt.Errorf("leasing: no session: %w", err)
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
