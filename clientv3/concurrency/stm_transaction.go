package concurrency

import (
	"context"
	"errors"
	"maps"
	"slices"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/internal/optxn"
	"github.com/quorate/quorate/retry"
)

// errConflict ends a run of the function that must be repeated.
var errConflict = errors.New("concurrency: what the transaction has read was changed")

// abortError is the value of the panic that ends the function.
type abortError struct{ err error }

// transaction is one call of NewSTM. It is the STM of every run of the function.
type transaction struct {
	kv     clientv3.KV
	ctx    context.Context
	guards guards

	// base is the revision of all reads of a snapshot, 0 before the first.
	base int64
	// known holds the keys read in the previous run, as the conflicting commit
	// returned them: nil for a key that does not exist. In a snapshot it is their
	// state at base.
	known map[string]*mvccpb.KeyValue

	// The rest is of one run.
	reads   map[string]*mvccpb.KeyValue
	writes  map[string]write
	aborted *abortError
}

type write struct {
	value string
	op    clientv3.Op
}

func (t *transaction) sealed() {}

// run repeats the function until it commits or fails.
func (t *transaction) run(apply func(STM) error) (*clientv3.TxnResponse, error) {
	for {
		t.reads = make(map[string]*mvccpb.KeyValue)
		t.writes = make(map[string]write)
		t.aborted = nil
		err := t.call(apply)
		if err == nil {
			var resp *clientv3.TxnResponse
			if resp, err = t.commit(); err == nil {
				return resp, nil
			}
		}
		if !errors.Is(err, errConflict) {
			return nil, err
		}
	}
}

// call runs the function once. It handles only the panics of its own STM; others reach
// the caller with their original stack.
func (t *transaction) call(apply func(STM) error) (err error) {
	defer func() {
		if t.aborted == nil {
			return
		}
		if r := recover(); r != nil && r != any(t.aborted) {
			panic(r)
		}
		err = t.aborted.err
	}()
	return apply(t)
}

func (t *transaction) fail(err error) {
	t.aborted = &abortError{err: err}
	panic(t.aborted)
}

func (t *transaction) Get(keys ...string) string {
	if len(keys) == 0 {
		return ""
	}
	if w, ok := t.writes[keys[0]]; ok && len(keys) == 1 {
		return w.value
	}
	t.read(keys)
	if w, ok := t.writes[keys[0]]; ok {
		return w.value
	}
	return string(t.reads[keys[0]].GetValue())
}

func (t *transaction) Put(key, val string, opts ...clientv3.OpOption) {
	t.writes[key] = write{value: val, op: clientv3.OpPut(key, val, opts...)}
}

func (t *transaction) Rev(key string) int64 {
	t.read([]string{key})
	return t.reads[key].GetModRevision()
}

func (t *transaction) Del(key string) {
	t.writes[key] = write{op: clientv3.OpDelete(key)}
}

// read fetches those of the keys that have not been read yet.
func (t *transaction) read(keys []string) {
	var missing []string
	for _, key := range keys {
		if _, ok := t.reads[key]; ok || slices.Contains(missing, key) {
			continue
		}
		if kv, ok := t.known[key]; ok {
			t.reads[key] = kv
			continue
		}
		missing = append(missing, key)
	}
	if len(missing) == 0 {
		return
	}
	resp, err := t.fetch(missing)
	if errors.Is(err, rpctypes.ErrCompacted) && t.base != 0 {
		t.base, t.known = 0, nil // the snapshot was compacted, the next run takes a new one
		err = errConflict
	}
	if err != nil {
		t.fail(err)
	}
	if t.guards.snapshot && t.base == 0 {
		t.base = resp.Header.Revision
	}
	for i, key := range missing {
		t.reads[key] = optxn.Key(resp, i)
	}
}

// fetch reads keys from the cluster, at the revision of the snapshot if there is one.
func (t *transaction) fetch(keys []string) (*clientv3.TxnResponse, error) {
	if t.guards.snapshot && t.base == 0 {
		return t.get(keys)
	}
	at := clientv3.WithRev(t.base)
	resp, err := t.get(keys, at, clientv3.WithSerializable())
	if errors.Is(err, rpctypes.ErrFutureRev) { // from a member that lags behind
		return t.get(keys, at)
	}
	return resp, err
}

func (t *transaction) get(keys []string, opts ...clientv3.OpOption) (*clientv3.TxnResponse, error) {
	return t.kv.Txn(t.ctx).Then(gets(keys, opts...)...).Commit()
}

func gets(keys []string, opts ...clientv3.OpOption) []clientv3.Op {
	ops := make([]clientv3.Op, len(keys))
	for i, key := range keys {
		ops[i] = clientv3.OpGet(key, opts...)
	}
	return ops
}

// commit writes the function's puts and deletes. The error is errConflict if a key that
// it depends on has changed; the response then holds the current values.
func (t *transaction) commit() (*clientv3.TxnResponse, error) {
	keys, conditions := slices.Collect(maps.Keys(t.reads)), t.conditions()
	writes := make([]clientv3.Op, 0, len(t.writes))
	for _, w := range t.writes {
		writes = append(writes, w.op)
	}
	txn := t.kv.Txn(t.ctx).Then(writes...)
	if len(conditions) > 0 {
		txn = t.kv.Txn(t.ctx).If(conditions...).Then(writes...).Else(gets(keys)...)
	}
	resp, err := txn.Commit()
	if err != nil && len(conditions) > 0 && retry.OutcomeOf(err) == retry.OutcomeExecuted {
		err = &retry.UnknownOutcomeError{Method: pb.KV_Txn_FullMethodName, Err: err} // it may have found a conflict
	}
	if err != nil {
		return nil, err
	}
	if resp.Succeeded {
		return resp, nil
	}
	t.known = make(map[string]*mvccpb.KeyValue, len(keys))
	for i, key := range keys {
		t.known[key] = optxn.Key(resp, i)
	}
	if t.guards.snapshot {
		t.base = resp.Header.Revision
	}
	return nil, errConflict
}

// conditions returns the comparisons that guard the commit.
func (t *transaction) conditions() []clientv3.Cmp {
	var cmps []clientv3.Cmp
	if t.guards.reads {
		for key, kv := range t.reads {
			cmps = append(cmps, clientv3.Compare(clientv3.ModRevision(key), "=", kv.GetModRevision()))
		}
	}
	if t.guards.writes && t.base != 0 {
		for key := range t.writes {
			if _, read := t.reads[key]; !read {
				cmps = append(cmps, clientv3.Compare(clientv3.ModRevision(key), "<", t.base+1))
			}
		}
	}
	return cmps
}
