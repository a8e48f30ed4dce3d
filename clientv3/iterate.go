package clientv3

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// firstRangeKeys and firstRangeNames are the numbers of keys, with and without values, in the first page of a range: most
// ranges have fewer, and cost one request. What is more comes as a stream.
const (
	firstRangeKeys  = 256
	firstRangeNames = 10_000
)

var (
	errRangeCut   = errors.New("etcdclient: the range ended before its last part")
	errWatchEnded = fmt.Errorf("etcdclient: the watch has ended: its Watcher was closed: %w", context.Canceled)
)

// Range reads key, or the range that the options ask for, and yields its keys as [Pages] does: all at one revision. An
// error is the last that it yields; without one, the range is complete.
//
//	for kv, err := range clientv3.Range(ctx, client, "app/", clientv3.WithPrefix()) {
func Range(ctx context.Context, kv KV, key string, opts ...OpOption) iter.Seq2[*mvccpb.KeyValue, error] {
	pages := Pages(ctx, kv, key, opts...)
	return func(yield func(*mvccpb.KeyValue, error) bool) {
		for page, err := range pages {
			if err != nil {
				yield(nil, err)
				return
			}
			for _, kv := range page.Kvs {
				if !yield(kv, nil) {
					return
				}
			}
		}
	}
}

// Pages reads key, or the range that the options ask for, in pages, so that neither side holds a large range as a whole.
// All pages are read at one revision: the one in their common Header, unless [WithRev] sets it. Count is the number of keys
// in the whole range, and More says whether keys follow, as in a response of [KV.Get].
//
// The first page is read by a Get and has at most 256 keys, with [WithKeysOnly] 10,000, and fewer if that is too large for one
// message ([Config.MaxCallRecvMsgSize]). The others are the chunks of a [KV.GetStream] with [WithPageFallback]: if a member
// fails they are read from another one, and a slow reader pauses the stream. With a KV without GetStream, such as that of
// package leasing, they are read like the first. A range with a sort order other than by key, or with filters by revision, is
// one page.
//
// It yields an error last: one of the server, such as rpctypes.ErrCompacted if the revision was compacted meanwhile, or that
// of ctx. Without an error, the range is complete. Each loop over the result reads again. It panics as [OpGet] does.
func Pages(ctx context.Context, kv KV, key string, opts ...OpOption) iter.Seq2[*GetResponse, error] {
	op := OpGet(key, opts...)
	if op.pageKeys = firstRangeKeys; op.keysOnly {
		op.pageKeys = firstRangeNames
	}
	return func(yield func(*GetResponse, error) bool) {
		page, rest, err := getPart(ctx, kv, op)
		if err != nil || rest == nil {
			yield(page, err)
			return
		}
		rest.rev = cmp.Or(max(op.rev, 0), page.Header.GetRevision())
		header, count := page.Header, page.Count
		if !yield(page, nil) {
			return
		}
		readRest(ctx, kv, *rest, func(chunk *pb.RangeResponse, err error) bool {
			if err != nil {
				return yield(nil, err)
			}
			more := chunk.Header == nil || chunk.More
			return yield(&GetResponse{Header: header, Kvs: chunk.Kvs, Count: count, More: more}, nil)
		})
	}
}

// getPart gets the first part of a range, and returns the operation for the rest, nil if there is none.
func getPart(ctx context.Context, kv KV, op Op) (part *GetResponse, rest *Op, err error) {
	first, pages := op, len(op.end) > 0 && !op.countOnly && (&rangeCursor{op: op}).plain()
	first.pageKeys = 0
	if pages {
		first.limit = min(cmp.Or(op.limit, op.pageKeys), op.pageKeys)
	}
	get := func() (*GetResponse, error) { return kv.Get(ctx, string(first.key), func(op *Op) { *op = first }) } // programs wrap Get
	part, err = get()
	for pages && first.limit > 1 && isTooLarge(err) {
		first.limit = fewerKeys(first.limit)
		part, err = get()
	}
	if err != nil {
		return nil, nil, err
	}
	n := len(part.Kvs)
	switch {
	case !part.More || first.limit == op.limit:
		return part, nil, nil
	case n == 0:
		return nil, nil, errNoProgress
	}
	op.key = keyAfter(part.Kvs[n-1].Key)
	op.limit = max(op.limit-int64(n), 0)
	op.pageKeys = nextPageKeys(int64(n), proto.Size((*pb.RangeResponse)(part)))
	return part, &op, nil
}

// readRest yields the chunks of a stream, and an error at last if they are not all.
func readRest(ctx context.Context, kv KV, op Op, yield func(*pb.RangeResponse, error) bool) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := kv.GetStream(ctx, string(op.key), func(o *Op) { *o = op })
	if status.Code(err) == codes.Unimplemented {
		getRest(ctx, kv, op, yield)
		return
	}
	if err != nil {
		yield(nil, err)
		return
	}
	complete, read := false, 0
	for chunk := range stream {
		err := chunk.Err()
		if errors.Is(err, rpctypes.ErrFutureRev) && op.serializable && read == 0 {
			// This member is behind the one that has answered before.
			op.serializable = false
			readRest(ctx, kv, op, yield)
			return
		}
		if err != nil {
			yield(nil, err)
			return
		}
		complete, read = chunk.Header != nil, read+len(chunk.Kvs)
		if !yield(chunk.RangeResponse, nil) {
			return
		}
	}
	if !complete {
		yield(nil, cmp.Or(ctx.Err(), errRangeCut))
	}
}

// getRest is readRest for a KV without GetStream, such as that of package leasing.
func getRest(ctx context.Context, kv KV, op Op, yield func(*pb.RangeResponse, error) bool) {
	for {
		part, rest, err := getPart(ctx, kv, op)
		if errors.Is(err, rpctypes.ErrFutureRev) && op.serializable {
			op.serializable = false // this member is behind
			continue
		}
		if err != nil {
			yield(nil, err)
			return
		}
		if !yield((*pb.RangeResponse)(part), nil) || rest == nil {
			return
		}
		op = *rest
	}
}

// Events watches key, or the range that the options ask for, and yields its events as [Watcher] has them. It goes on until
// the loop ends it, ctx ends, or the watch fails. It yields the reason last: the error of ctx, or one that [Watcher]
// lists, such as rpctypes.ErrCompacted. Each loop over the result is a watch of its own.
func Events(ctx context.Context, w Watcher, key string, opts ...OpOption) iter.Seq2[*Event, error] {
	return func(yield func(*Event, error) bool) {
		watching, cancel := context.WithCancel(ctx)
		defer cancel()
		for resp := range w.Watch(watching, key, opts...) {
			for _, ev := range resp.Events {
				if !yield(ev, nil) {
					return
				}
			}
			if err := resp.Err(); err != nil {
				yield(nil, err)
				return
			}
		}
		yield(nil, cmp.Or(ctx.Err(), errWatchEnded))
	}
}

// Leases yields all leases of the cluster with their remaining time, and with [WithAttachedKeys] with their keys. It
// requests each when the loop reaches it, and leaves out those that have ended since it listed them. An error is the last
// that it yields.
func Leases(ctx context.Context, l Lease, opts ...LeaseOption) iter.Seq2[*LeaseTimeToLiveResponse, error] {
	return func(yield func(*LeaseTimeToLiveResponse, error) bool) {
		list, err := l.Leases(ctx)
		if err != nil {
			yield(nil, err)
			return
		}
		for _, status := range list.Leases {
			lease, err := l.TimeToLive(ctx, status.ID, opts...)
			switch {
			case err != nil:
				yield(nil, err)
				return
			case lease.TTL >= 0 && !yield(lease, nil):
				return
			}
		}
	}
}

// Members yields the members of the cluster, by one request; opts are those of [Cluster.MemberList]. An error is the last
// that it yields.
func Members(ctx context.Context, c Cluster, opts ...OpOption) iter.Seq2[*pb.Member, error] {
	return func(yield func(*pb.Member, error) bool) {
		list, err := c.MemberList(ctx, opts...)
		if err != nil {
			yield(nil, err)
			return
		}
		for _, m := range list.Members {
			if !yield(m, nil) {
				return
			}
		}
	}
}
