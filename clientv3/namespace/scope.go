package namespace

import (
	"bytes"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/quorate/quorate/clientv3"
)

// scope translates between a namespace, whose prefix it is, and the store.
type scope string

// noEnd is the range end that stands for all keys from the first one on, and the
// smallest key that there can be.
var noEnd = []byte{0}

func (s scope) key(key []byte) []byte { return append([]byte(s), key...) }

// end translates the end of a range. A range without an end must not leave the
// namespace.
func (s scope) end(end []byte) []byte {
	switch {
	case len(end) == 0:
		return nil
	case bytes.Equal(end, noEnd):
		return []byte(clientv3.GetPrefixRangeEnd(string(s)))
	default:
		return s.key(end)
	}
}

// op translates an operation. It has the error that the server has for an
// operation without a key.
func (s scope) op(op clientv3.Op) (clientv3.Op, error) {
	if op.IsTxn() {
		return s.opTxn(op)
	}
	if len(op.KeyBytes()) == 0 {
		return op, rpctypes.ErrEmptyKey
	}
	return s.keyed(op), nil
}

// keyed translates an operation that has a key.
func (s scope) keyed(op clientv3.Op) clientv3.Op {
	op.WithKeyBytes(s.key(op.KeyBytes()))
	op.WithRangeBytes(s.end(op.RangeBytes()))
	return op
}

func (s scope) opTxn(op clientv3.Op) (clientv3.Op, error) {
	cmps, thenOps, elseOps := op.Txn()
	cmps, err := translate(cmps, s.cmp)
	if err != nil {
		return op, err
	}
	if thenOps, err = translate(thenOps, s.op); err != nil {
		return op, err
	}
	if elseOps, err = translate(elseOps, s.op); err != nil {
		return op, err
	}
	return clientv3.OpTxn(cmps, thenOps, elseOps), nil
}

// cmp translates a comparison. One of a range may begin with the empty key, as
// Version("").WithPrefix() does to mean all keys.
func (s scope) cmp(cmp clientv3.Cmp) (clientv3.Cmp, error) {
	cmp = cmp.Clone()
	c := cmp.GetCompare()
	switch {
	case len(c.Key) > 0:
		c.Key = s.key(c.Key)
	case len(c.RangeEnd) > 0:
		c.Key = s.key(noEnd)
	default:
		return cmp, rpctypes.ErrEmptyKey
	}
	c.RangeEnd = s.end(c.RangeEnd)
	return cmp, nil
}

// translate returns a translation of each of from, or the first error.
func translate[T any](from []T, one func(T) (T, error)) ([]T, error) {
	to := make([]T, len(from))
	for i := range from {
		var err error
		if to[i], err = one(from[i]); err != nil {
			return nil, err
		}
	}
	return to, nil
}
