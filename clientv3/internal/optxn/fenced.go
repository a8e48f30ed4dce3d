package optxn

import (
	"context"
	"errors"

	"github.com/quorate/quorate/clientv3"
)

// errCompact is the error of a Compact of a fenced KV.
var errCompact = errors.New("etcdclient: Compact cannot be fenced: call it on the client")

// Fence is what the writes of a fenced KV are compared with.
type Fence interface {
	// Fence returns the comparison that holds while writes may be executed, and never again.
	Fence() clientv3.Cmp
	// Err returns nil while writes are sent, and then the error that they have.
	Err() error
}

// Fenced returns a KV over kv whose writes are transactions that compare fence.Fence, with the
// responses of the plain calls. Reads are those of kv. refused is called when the comparison did not
// hold; fence.Err returns an error from then on.
func Fenced(kv clientv3.KV, fence Fence, refused func()) clientv3.KV {
	f := &fencedKV{store: kv, fence: fence, refused: refused}
	f.KV = Over(kv, f.execute)
	return f
}

type fencedKV struct {
	KV      // for all but Compact
	store   clientv3.KV
	fence   Fence
	refused func()
}

func (kv *fencedKV) Compact(context.Context, int64, ...clientv3.CompactOption) (*clientv3.CompactResponse, error) {
	return nil, errCompact
}

func (kv *fencedKV) execute(ctx context.Context, op clientv3.Op) (clientv3.OpResponse, error) {
	if op.IsGet() {
		return kv.store.Do(ctx, op)
	}
	if err := kv.fence.Err(); err != nil {
		return clientv3.OpResponse{}, err
	}
	ops := []clientv3.Op{op}
	cmps, thenOps, _ := op.Txn()
	unconditional := op.IsTxn() && len(cmps) == 0
	if unconditional {
		ops = thenOps
	}
	resp, err := kv.store.Txn(ctx).If(kv.fence.Fence()).Then(ops...).Commit()
	switch {
	case err != nil:
		return clientv3.OpResponse{}, err
	case !resp.Succeeded:
		kv.refused()
		return clientv3.OpResponse{}, kv.fence.Err()
	case unconditional:
		return resp.OpResponse(), nil
	}
	return Part(At(resp, 0), op, resp.Header)
}
