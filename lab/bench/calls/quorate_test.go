package calls

import (
	"context"

	"github.com/quorate/quorate/clientv3"
)

// quorateCall returns the call of an operation.
func quorateCall(c clientv3.KV, o operation) call {
	var opts []clientv3.OpOption
	switch o.kind {
	case put:
		return func(ctx context.Context, i int) error { _, err := c.Put(ctx, o.key(i), o.value); return err }
	case txn:
		return func(ctx context.Context, i int) error {
			key := o.key(i)
			_, err := c.Txn(ctx).If(clientv3.Compare(clientv3.CreateRevision(key), ">", 0)).
				Then(clientv3.OpPut(key, o.value)).Else(clientv3.OpGet(key)).Commit()
			return err
		}
	case getPrefix:
		opts = append(opts, clientv3.WithPrefix())
	case getSerializable:
		opts = append(opts, clientv3.WithSerializable())
	default:
	}
	return func(ctx context.Context, i int) error { _, err := c.Get(ctx, o.key(i), opts...); return err }
}
