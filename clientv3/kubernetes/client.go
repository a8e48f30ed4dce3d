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

// ifUnmodified carries out a write of key if its last modification was at revision.
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
