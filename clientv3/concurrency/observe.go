package concurrency

import (
	"cmp"
	"context"
	"errors"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/internal/reply"
	"github.com/quorate/quorate/internal/pause"
	"github.com/quorate/quorate/retry"
)

// observeAgain is about how long an observer pauses after a compaction, and after an attempt that lasted at least that long.
const observeAgain = time.Second

// observePauses are the pauses after consecutive errors, with full jitter. Before most errors the client has retried for 15 s.
var observePauses = retry.Policy{InitialBackoff: 2 * observeAgain, MaxBackoff: 10 * observeAgain}

// Observe returns a channel that delivers the leader, as [Election.Leader] returns it,
// and then every new leader and every new value, in order. Leaders and values that
// were soon replaced may be skipped; the last one never is.
//
// Observe continues through faults: when a watch has ended it reads the leader again.
// The channel is closed when ctx ends, the client is closed, the server denies access
// (rpctypes.ErrPermissionDenied), or the cluster has no leader and ctx was made by
// [clientv3.WithRequireLeader]. Cancel ctx when you no longer read the channel.
func (e *Election) Observe(ctx context.Context) <-chan *clientv3.GetResponse {
	o := &observer{
		client: e.waiter.session.client,
		prefix: e.waiter.prefix,
		ch:     make(chan *clientv3.GetResponse),
	}
	go o.run(ctx)
	return o.ch
}

// observer delivers the leaders of an election.
type observer struct {
	client *clientv3.Client
	prefix string
	ch     chan *clientv3.GetResponse
	// key is the last delivered leader key, and rev the revision of its value.
	key string
	rev int64
}

// run follows one leader after the other until ctx or the client ends.
func (o *observer) run(ctx context.Context) {
	defer close(o.ch)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(o.client.Ctx(), cancel)()
	for failures := 1; ; failures++ {
		began := time.Now()
		err := o.follow(ctx)
		if ctx.Err() != nil || !transient(err) {
			return
		}
		if err == nil || time.Since(began) >= observeAgain {
			failures = 1
		}
		if err != nil && pause.For(ctx, observePauses.Delay(failures)) != nil {
			return
		}
	}
}

// follow delivers one leader and its values. It returns nil when the leader key is
// deleted, or when another read is needed.
func (o *observer) follow(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	resp, err := o.client.Get(ctx, o.prefix, clientv3.WithFirstCreate()...)
	if err == nil && len(resp.Kvs) == 0 {
		resp, err = o.firstCandidate(ctx, resp.Header.Revision+1)
	}
	if err != nil || resp == nil {
		return err
	}
	// The watch begins before a slow reader takes the leader: one that begins later does not notice that the cluster was restored meanwhile.
	changes := o.client.Watch(ctx, string(resp.Kvs[0].Key), clientv3.WithRev(resp.Header.Revision+1))
	if !o.deliver(ctx, resp) {
		return nil
	}
	return each(ctx, changes, nil, func(header *pb.ResponseHeader, ev *clientv3.Event) bool {
		return ev.Type != clientv3.EventTypeDelete && o.deliver(ctx, response(header, ev.Kv))
	})
}

// firstCandidate waits for the first candidate from rev on. There was none before, so it
// is the leader. It returns nil if another read is needed.
func (o *observer) firstCandidate(ctx context.Context, rev int64) (leader *clientv3.GetResponse, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	puts := o.client.Watch(ctx, o.prefix, clientv3.WithPrefix(), clientv3.WithRev(rev), clientv3.WithFilterDelete())
	err = each(ctx, puts, nil, func(header *pb.ResponseHeader, ev *clientv3.Event) bool {
		leader = response(header, ev.Kv)
		return false
	})
	return leader, err
}

// each calls f for the events of a watch, or of two, while f returns true. It returns nil when f has returned false, or when
// a compaction has ended a watch and it is time to read again: many may end at once, and so may the next ones.
func each(ctx context.Context, watch, other clientv3.WatchChan, f func(*pb.ResponseHeader, *clientv3.Event) bool) error {
	for {
		var resp clientv3.WatchResponse
		var open bool
		select {
		case resp, open = <-watch:
		case resp, open = <-other:
		}
		switch err := resp.Err(); {
		case !open:
			return cmp.Or(ctx.Err(), errWatchClosed)
		case errors.Is(err, rpctypes.ErrCompacted):
			return pause.About(ctx, observeAgain)
		case err != nil:
			return err
		}
		for _, ev := range resp.Events {
			if !f(resp.Header, ev) {
				return nil
			}
		}
	}
}

// response returns the response of a read at the revision of kv.
func response(header *pb.ResponseHeader, kv *mvccpb.KeyValue) *clientv3.GetResponse {
	return &clientv3.GetResponse{Header: reply.Header(header, kv.ModRevision), Kvs: []*mvccpb.KeyValue{kv}, Count: 1}
}

// deliver sends a leader, unless it was the last one sent. It returns false if ctx has
// ended.
func (o *observer) deliver(ctx context.Context, resp *clientv3.GetResponse) bool {
	kv := resp.Kvs[0]
	if string(kv.Key) == o.key && kv.ModRevision == o.rev {
		return true
	}
	select {
	case o.ch <- resp:
		o.key, o.rev = string(kv.Key), kv.ModRevision
		return true
	case <-ctx.Done():
		return false
	}
}

// transient reports whether the next attempt may succeed after err, which may be nil.
func transient(err error) bool {
	if errors.Is(err, rpctypes.ErrNoLeader) { // only with WithRequireLeader
		return false
	}
	switch retry.CodeOf(err) {
	case codes.Canceled, codes.PermissionDenied, codes.Unauthenticated, codes.InvalidArgument, codes.Unimplemented:
		return false
	default:
		return true
	}
}
