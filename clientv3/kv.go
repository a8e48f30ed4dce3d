package clientv3

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"
)

// CompactResponse is the response to [KV.Compact].
type CompactResponse pb.CompactionResponse

// PutResponse is the response to [KV.Put].
type PutResponse pb.PutResponse

// GetResponse is the response to [KV.Get].
type GetResponse pb.RangeResponse

// DeleteResponse is the response to [KV.Delete].
type DeleteResponse pb.DeleteRangeResponse

// TxnResponse is the response to [Txn].
type TxnResponse pb.TxnResponse

// KV reads and writes keys. Keys and values are byte strings of any content.
//
// Get, and a Txn that only reads, are repeated after a fault for as long as ctx
// allows. Put, Delete, Compact and a Txn that writes reach a server at most once:
// the client sends them again only if they were certainly not executed, and
// otherwise returns a *retry.UnknownOutcomeError.
type KV interface {
	// Put writes val to key.
	Put(ctx context.Context, key, val string, opts ...OpOption) (*PutResponse, error)

	// Get reads key, or the range that the options ask for, in one response. By
	// default it is linearizable: it sees every write that was acknowledged before
	// it began. A key that does not exist is not an error; Kvs is empty.
	Get(ctx context.Context, key string, opts ...OpOption) (*GetResponse, error)

	// GetStream reads like Get and delivers the result in chunks, so that neither
	// side holds a large range as a whole. See [GetStreamChan] for what the channel
	// delivers and how to stop early.
	//
	// All chunks are read at one revision. When a stream breaks, the read resumes
	// after the last delivered key, on another member and at the same revision;
	// together the chunks equal those of an unbroken stream. Choosing the revision
	// costs a round trip, except with WithRev and for a result of one chunk: one key,
	// a count, a limit of up to ten.
	//
	// A server without the RangeStream method (etcd before 3.7, the gRPC proxy)
	// returns codes.Unimplemented, see [WithPageFallback]; so do a sort order other
	// than by key, and filters by revision.
	GetStream(ctx context.Context, key string, opts ...OpOption) (GetStreamChan, error)

	// Delete deletes key, or the range that the options ask for.
	Delete(ctx context.Context, key string, opts ...OpOption) (*DeleteResponse, error)

	// Compact discards the history of all keys before revision rev. Reading,
	// watching or compacting at such a revision afterwards fails with
	// rpctypes.ErrCompacted.
	Compact(ctx context.Context, rev int64, opts ...CompactOption) (*CompactResponse, error)

	// Do executes one operation. It panics if op was not made by one of the Op
	// builders.
	Do(ctx context.Context, op Op) (OpResponse, error)

	// Txn begins a transaction, to be sent with ctx.
	Txn(ctx context.Context) Txn
}

type kv struct {
	remote   pb.KVClient
	client   *Client
	callOpts []grpc.CallOption

	streams atomic.Bool // the server is known to have the RangeStream method
}

// getRequest is the request of a get without options, with room for a key that is not long.
type getRequest struct {
	pb.RangeRequest
	room [40]byte
}

// NewKV returns the KV service of a client.
func NewKV(c *Client) KV { return NewKVFromKVClient(RetryKVClient(c), c) }

// NewKVFromKVClient returns the KV service over remote, with the call options of c.
// c may be nil. Retries are up to remote: only a remote of this package retries.
func NewKVFromKVClient(remote pb.KVClient, c *Client) KV {
	c = orNone(c)
	opts := c.callOpts
	if isOwn(remote) {
		opts = static(opts)
	}
	return &kv{remote: remote, client: c, callOpts: slices.Clip(opts)}
}

func (kv *kv) Put(ctx context.Context, key, val string, opts ...OpOption) (*PutResponse, error) {
	return kv.put(ctx, OpPut(key, val, opts...))
}

func (kv *kv) Get(ctx context.Context, key string, opts ...OpOption) (*GetResponse, error) {
	if len(opts) > 0 {
		return kv.get(ctx, OpGet(key, opts...))
	}
	r := new(getRequest)
	r.Key = append(r.room[:0], key...)
	return kv.read(ctx, &r.RangeRequest)
}

func (kv *kv) Delete(ctx context.Context, key string, opts ...OpOption) (*DeleteResponse, error) {
	return kv.delete(ctx, OpDelete(key, opts...))
}

func (kv *kv) Compact(ctx context.Context, rev int64, opts ...CompactOption) (*CompactResponse, error) {
	op := OpCompact(rev, opts...)
	resp, err := invoke(ctx, kv.remote.Compact, &pb.CompactionRequest{Revision: op.revision, Physical: op.physical}, kv.callOpts)
	return (*CompactResponse)(resp), err
}

func (kv *kv) Txn(ctx context.Context) Txn { return &txn{kv: kv, ctx: ctx} }

func (kv *kv) Do(ctx context.Context, op Op) (OpResponse, error) {
	switch op.t {
	case tRange:
		resp, err := kv.get(ctx, op)
		return OpResponse{get: resp}, err
	case tPut:
		resp, err := kv.put(ctx, op)
		return OpResponse{put: resp}, err
	case tDeleteRange:
		resp, err := kv.delete(ctx, op)
		return OpResponse{del: resp}, err
	case tTxn:
		resp, err := invoke(ctx, kv.remote.Txn, op.toTxnRequest(), kv.callOpts)
		return OpResponse{txn: (*TxnResponse)(resp)}, err
	default:
		panic("Unknown op")
	}
}

func (kv *kv) get(ctx context.Context, op Op) (*GetResponse, error) {
	if op.sort != nil && !op.IsSortOptionValid() {
		return nil, rpctypes.ErrInvalidSortOption
	}
	return kv.read(ctx, op.toRangeRequest())
}

func (kv *kv) read(ctx context.Context, req *pb.RangeRequest) (*GetResponse, error) {
	resp, err := kv.remote.Range(ctx, req, kv.callOpts...)
	if err != nil {
		return nil, ContextError(ctx, err)
	}
	return (*GetResponse)(resp), nil
}

func (kv *kv) put(ctx context.Context, op Op) (*PutResponse, error) {
	resp, err := invoke(ctx, kv.remote.Put, op.toPutRequest(), kv.callOpts)
	return (*PutResponse)(resp), err
}

func (kv *kv) delete(ctx context.Context, op Op) (*DeleteResponse, error) {
	resp, err := invoke(ctx, kv.remote.DeleteRange, op.toDeleteRequest(), kv.callOpts)
	return (*DeleteResponse)(resp), err
}

// CompactOp is the operation that [KV.Compact] carries out.
type CompactOp struct {
	revision int64
	physical bool
}

// CompactOption sets a property of a compaction.
type CompactOption func(*CompactOp)

// OpCompact returns the operation that discards the history before rev.
func OpCompact(rev int64, opts ...CompactOption) CompactOp {
	op := CompactOp{revision: rev}
	for _, opt := range opts {
		opt(&op)
	}
	return op
}

// WithCompactPhysical delays the response until the member that serves the request
// has removed the discarded entries from its storage.
func WithCompactPhysical() CompactOption {
	return func(op *CompactOp) { op.physical = true }
}

// Txn builds and executes one transaction:
//
//	resp, err := kv.Txn(ctx).
//		If(clientv3.Compare(clientv3.Value("k1"), ">", "v1")).
//		Then(clientv3.OpPut("k2", "v2")).
//		Else(clientv3.OpPut("k3", "v3")).
//		Commit()
//
// If, Then and Else are optional. Each may be called at most once, in this order;
// anything else panics.
type Txn interface {
	// If sets the comparisons. If all of them hold, or there are none, the
	// operations of Then are executed, otherwise those of Else.
	If(cs ...Cmp) Txn

	// Then sets the operations executed if all comparisons hold.
	Then(ops ...Op) Txn

	// Else sets the operations executed if a comparison does not hold.
	Else(ops ...Op) Txn

	// Commit sends the transaction. A read-only transaction is retried after a
	// fault. One that writes is executed at most once; if its outcome is unknown
	// the error is a *retry.UnknownOutcomeError.
	Commit() (*TxnResponse, error)
}

type txn struct {
	kv  *kv
	ctx context.Context

	// mu guards what follows.
	mu     sync.Mutex
	called [len(txnPartNames)]bool
	req    pb.TxnRequest
}

// txnPart is a part of a transaction, in the order in which they are set.
type txnPart int

const (
	txnIf txnPart = iota
	txnThen
	txnElse
)

var txnPartNames = [...]string{txnIf: "If", txnThen: "Then", txnElse: "Else"}

// beginLocked panics if the part, or a later one, is already set.
func (t *txn) beginLocked(part txnPart) {
	if t.called[part] {
		panic("cannot call " + txnPartNames[part] + " twice!")
	}
	for later := part + 1; later <= txnElse; later++ {
		if t.called[later] {
			panic("cannot call " + txnPartNames[part] + " after " + txnPartNames[later] + "!")
		}
	}
	t.called[part] = true
}

func (t *txn) If(cs ...Cmp) Txn {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.beginLocked(txnIf)
	t.req.Compare = make([]*pb.Compare, len(cs))
	for i := range cs {
		t.req.Compare[i] = copyOrNewCompare(cs[i].c)
	}
	return t
}

func (t *txn) Then(ops ...Op) Txn {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.beginLocked(txnThen)
	t.req.Success = toRequestOps(ops)
	return t
}

func (t *txn) Else(ops ...Op) Txn {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.beginLocked(txnElse)
	t.req.Failure = toRequestOps(ops)
	return t
}

func (t *txn) Commit() (*TxnResponse, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	resp, err := invoke(t.ctx, t.kv.remote.Txn, &t.req, t.kv.callOpts)
	return (*TxnResponse)(resp), err
}
