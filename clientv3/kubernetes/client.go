// Package kubernetes is the client that a Kubernetes API server uses: a
// clientv3.Client with the few operations of [Interface] on top.
package kubernetes

import (
	"cmp"
	"context"
	"fmt"

	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/quorate/quorate/clientv3"
)

// Interface is all that Kubernetes asks of etcd's key-value store. A program may
// wrap it, see [Client.Kubernetes].
//
// Errors are those of clientv3.KV: the server's are comparable values of package
// rpctypes, and a write that may or may not have been executed gives a
// *retry.UnknownOutcomeError.
type Interface interface {
	// Get reads one key. Reading at a revision that is compacted fails with
	// rpctypes.ErrCompacted, at one that is yet to come with
	// rpctypes.ErrFutureRev.
	Get(ctx context.Context, key string, opts GetOptions) (GetResponse, error)

	// List reads the keys that begin with prefix, all keys if it is empty, in
	// lexical order. It fails as Get does.
	List(ctx context.Context, prefix string, opts ListOptions) (ListResponse, error)

	// Count returns how many keys begin with prefix: all keys, if it is empty.
	Count(ctx context.Context, prefix string, opts CountOptions) (int64, error)

	// OptimisticPut writes a key if its last modification was at
	// expectedRevision. 0 stands for a key that does not exist, so that it is
	// created. A key that was modified meanwhile is no error: the response says
	// that the put did not succeed.
	OptimisticPut(ctx context.Context, key string, value []byte, expectedRevision int64, opts PutOptions) (PutResponse, error)

	// OptimisticDelete deletes a key if its last modification was at
	// expectedRevision. A key that was modified meanwhile is no error: the
	// response says that the delete did not succeed. With 0, which stands for a
	// key that does not exist, nothing is deleted.
	OptimisticDelete(ctx context.Context, key string, expectedRevision int64, opts DeleteOptions) (DeleteResponse, error)
}

// GetOptions are the options of [Interface.Get].
type GetOptions struct {
	// Revision is the revision to read at. 0, the default, is the latest.
	Revision int64
}

// ListOptions are the options of [Interface.List].
type ListOptions struct {
	// Revision is the revision to read at. 0, the default, is the latest. The
	// pages of one listing are read at the revision of the first.
	Revision int64

	// Limit is the largest number of keys to return. 0, the default, is no limit.
	Limit int64

	// Continue is the key to start from: the last key of the page before with
	// "\x00" appended. Keys without the prefix are not listed, whatever it says.
	Continue string
}

// CountOptions are the options of [Interface.Count]. There are none yet.
type CountOptions struct{}

// PutOptions are the options of [Interface.OptimisticPut].
type PutOptions struct {
	// GetOnFailure asks for the key as it is, if the put does not succeed.
	GetOnFailure bool

	// LeaseID is the lease to attach to the key. 0, the default, is none; what
	// was attached before is detached then.
	LeaseID clientv3.LeaseID
}

// DeleteOptions are the options of [Interface.OptimisticDelete].
type DeleteOptions struct {
	// GetOnFailure asks for the key as it is, if the delete does not succeed.
	GetOnFailure bool
}

// GetResponse is the response to [Interface.Get].
type GetResponse struct {
	// KV is the key, nil if it does not exist.
	KV *mvccpb.KeyValue

	// Revision is the store's latest revision at the time of the read.
	Revision int64
}

// ListResponse is the response to [Interface.List].
type ListResponse struct {
	// Kvs are the keys of this page, in lexical order.
	Kvs []*mvccpb.KeyValue

	// Count is the number of keys from where the page starts to the end of the
	// listing, those beyond the limit included.
	Count int64

	// Revision is the store's latest revision at the time of the read.
	Revision int64
}

// PutResponse is the response to [Interface.OptimisticPut].
type PutResponse struct {
	// KV is the key as it is, if the put did not succeed and GetOnFailure was
	// set. It is nil otherwise, and if there is no such key.
	KV *mvccpb.KeyValue

	// Succeeded reports whether the key was written.
	Succeeded bool

	// Revision is the store's latest revision after the call, which is the
	// modification revision of a key that was written.
	Revision int64
}

// DeleteResponse is the response to [Interface.OptimisticDelete].
type DeleteResponse struct {
	// KV is the key as it is, if the delete did not succeed and GetOnFailure was
	// set. It is nil otherwise, and if there is no such key.
	KV *mvccpb.KeyValue

	// Succeeded reports whether the key was deleted.
	Succeeded bool

	// Revision is the store's latest revision after the call.
	Revision int64
}

// Client is a [clientv3.Client] that implements [Interface]. Close it after use.
//
// Its methods go through the field KV of the embedded client, so a program may
// replace that by a wrapper.
type Client struct {
	*clientv3.Client

	// Kubernetes is the client itself. A program that wants to see the calls of
	// others makes them use this field, and replaces it by a wrapper.
	Kubernetes Interface
}

var _ Interface = (*Client)(nil)

// New creates a client. It does and returns what [clientv3.New] does.
func New(cfg clientv3.Config) (*Client, error) {
	c, err := clientv3.New(cfg)
	if err != nil {
		return nil, err
	}
	k := &Client{Client: c}
	k.Kubernetes = k
	return k, nil
}

// Get implements [Interface].
func (k Client) Get(ctx context.Context, key string, opts GetOptions) (GetResponse, error) {
	resp, err := k.KV.Get(ctx, key, clientv3.WithRev(opts.Revision), clientv3.WithLimit(1))
	if err != nil {
		return GetResponse{}, err
	}
	return GetResponse{KV: only(resp.Kvs), Revision: resp.Header.GetRevision()}, nil
}

// List implements [Interface].
func (k Client) List(ctx context.Context, prefix string, opts ListOptions) (ListResponse, error) {
	first := cmp.Or(max(prefix, opts.Continue), "\x00") // etcd knows no empty key
	resp, err := k.KV.Get(ctx, first,
		clientv3.WithRange(clientv3.GetPrefixRangeEnd(prefix)),
		clientv3.WithLimit(opts.Limit),
		clientv3.WithRev(opts.Revision))
	if err != nil {
		return ListResponse{}, err
	}
	return ListResponse{Kvs: resp.Kvs, Count: resp.Count, Revision: resp.Header.GetRevision()}, nil
}

// Count implements [Interface].
func (k Client) Count(ctx context.Context, prefix string, _ CountOptions) (int64, error) {
	resp, err := k.KV.Get(ctx, prefix, clientv3.WithPrefix(), clientv3.WithCountOnly())
	if err != nil {
		return 0, err
	}
	return resp.Count, nil
}

// OptimisticPut implements [Interface].
func (k Client) OptimisticPut(
	ctx context.Context, key string, value []byte, expectedRevision int64, opts PutOptions,
) (PutResponse, error) {
	put := clientv3.OpPut(key, string(value), clientv3.WithLease(opts.LeaseID))
	return k.ifUnmodified(ctx, key, expectedRevision, put, opts.GetOnFailure)
}

// OptimisticDelete implements [Interface].
func (k Client) OptimisticDelete(
	ctx context.Context, key string, expectedRevision int64, opts DeleteOptions,
) (DeleteResponse, error) {
	o, err := k.ifUnmodified(ctx, key, expectedRevision, clientv3.OpDelete(key), opts.GetOnFailure)
	return DeleteResponse(o), err
}

// ifUnmodified executes a write of key if its last modification was at revision.
func (k Client) ifUnmodified(
	ctx context.Context, key string, revision int64, write clientv3.Op, getOnFailure bool,
) (PutResponse, error) {
	txn := k.KV.Txn(ctx).
		If(clientv3.Compare(clientv3.ModRevision(key), "=", revision)).
		Then(write)
	if getOnFailure {
		txn = txn.Else(clientv3.OpGet(key))
	}
	resp, err := txn.Commit()
	if err != nil {
		return PutResponse{}, err
	}
	o := PutResponse{Succeeded: resp.Succeeded, Revision: resp.Header.GetRevision()}
	if o.Succeeded || !getOnFailure {
		return o, nil
	}
	if len(resp.Responses) != 1 || resp.Responses[0].GetResponseRange() == nil {
		return o, fmt.Errorf("kubernetes: key %q was modified, and the response does not hold it as it is", key)
	}
	o.KV = only(resp.Responses[0].GetResponseRange().Kvs)
	return o, nil
}

// only returns the one key of a read that finds one at most, or nil.
func only(kvs []*mvccpb.KeyValue) *mvccpb.KeyValue {
	if len(kvs) == 0 {
		return nil
	}
	return kvs[0]
}
