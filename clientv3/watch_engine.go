package clientv3

import (
	"cmp"
	"context"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"

	"github.com/quorate/quorate/clientv3/internal/lineage"
	"github.com/quorate/quorate/clientv3/internal/watch"
	"github.com/quorate/quorate/internal/channel"
	"github.com/quorate/quorate/observe"
)

// defaultMaxWatchBufferBytes holds several seconds of a thousand events per second
// of a few KiB each. That is little compared with the memory of a program that
// reads as much.
const defaultMaxWatchBufferBytes = 16 << 20

// slowWatches is the default ratio of the budget of all watches to that of one. Half
// as many watches can fill their buffers, see watch.Budget.
const slowWatches = 8

// NewWatcher returns the Watcher service of a client. Its streams share the
// connections of calls until they carry much traffic.
func NewWatcher(c *Client) Watcher {
	c = orNone(c)
	return newWatcher(ownWatch{pb.NewWatchClient(c.transport())}, c, c.history)
}

// NewWatchFromWatchClient returns the Watcher service over wc, with the call
// options of c. c may be nil. A WatchClient of the program, such as a mock, gets
// the same treatment as from the official client: one stream for callers with equal
// metadata, one create at a time without an id, and progress requests only from
// callers; any error except Unavailable and Internal ends the watches. Close does
// not wait for a Recv that ignores its context.
func NewWatchFromWatchClient(wc pb.WatchClient, c *Client) Watcher {
	return newWatcher(wc, orNone(c), nil) // wc may belong to another cluster
}

func newWatcher(remote pb.WatchClient, c *Client, h *lineage.Tracker) Watcher {
	own := isOwn(remote)
	w := &watcher{watch.New(watch.Config{
		MaxBuffer:         c.cfg.maxWatchBuffer(),
		Budget:            cmp.Or(c.watches, watch.NewBudget(c.cfg.maxTotalWatchBuffer())),
		Foreign:           !own,
		FragmentOnRequest: c.cfg.MaxCallRecvMsgSize > 0,
		DisableSplit:      c.cfg.DisableSplitReplay,
		History:           h,
		Read:              func(ctx context.Context, key string) error { return readKey(ctx, c, cmp.Or(key, readyKey)) },
		Logger:            c.GetLogger,
		Connect: func() watch.Connector {
			retrier := c.streamRetrier(pb.Watch_Watch_FullMethodName).Endless()
			return &watchConnector{
				Retrier:  retrier,
				own:      own,
				remote:   over(c, retrier, remote, pb.NewWatchClient),
				opts:     c.callOpts,
				observer: observerOf(c),
			}
		},
	})}
	c.watchers.add(w)
	return w
}

func (cfg *Config) maxWatchBuffer() int {
	return cmp.Or(cfg.MaxWatchBufferBytes, defaultMaxWatchBufferBytes)
}

func (cfg *Config) maxTotalWatchBuffer() int {
	return cmp.Or(cfg.MaxTotalWatchBufferBytes, slowWatches*cfg.maxWatchBuffer())
}

// observerOf returns the client's observer, or a no-op if there is none.
func observerOf(c *Client) observe.Observer {
	return cmp.Or[observe.Observer](c.cfg.Observer, observe.None{})
}

// watchConnector opens the watch streams of one shard.
type watchConnector struct {
	*channel.Retrier
	own      bool // remote is the client's own
	remote   pb.WatchClient
	opts     []grpc.CallOption
	observer observe.Observer
}

// Open requires a leader over a program's own client only if the callers do.
func (wc *watchConnector) Open(ctx context.Context, leader bool) (pb.Watch_WatchClient, error) {
	if !wc.own {
		return openForeign(ctx, wc.opts, wc.remote.Watch)
	}
	if leader {
		ctx = WithRequireLeader(ctx)
	}
	return wc.remote.Watch(ctx, wc.opts...)
}

func (wc *watchConnector) Next(ctx context.Context, cause error) error {
	if !wc.own && isHalt(cause) {
		return cause
	}
	return wc.Retrier.Next(ctx, cause)
}

func (wc *watchConnector) Leaderless() bool { return wc.own && wc.Retrier.Leaderless() }

func (wc *watchConnector) Resumed(watches int, gap time.Duration) {
	wc.observer.WatchResumed(observe.WatchResumption{Endpoint: wc.Endpoint(), Watches: watches, Gap: gap})
}

// watcher is the Watcher over an engine. Package cache calls its Reopen when a stream is stuck.
type watcher struct{ *watch.Engine }

func (w *watcher) Watch(ctx context.Context, key string, opts ...OpOption) WatchChan {
	op := OpWatch(key, opts...)
	sink := watchSink{ctx: ctx, ch: make(chan WatchResponse, 1)}
	w.Engine.Watch(ctx, watchRequest(&op), sink)
	return sink.ch
}

func watchRequest(op *Op) watch.Request {
	req := watch.Request{
		Key: op.key, End: op.end, Rev: op.rev,
		PrevKV: op.prevKV, Fragment: op.fragment, ProgressNotify: op.progressNotify,
		CreatedNotify: op.createdNotify, LogSlowReader: op.watchBufLogEnabled,
	}
	if op.filterPut {
		req.Filters = append(req.Filters, pb.WatchCreateRequest_NOPUT)
	}
	if op.filterDelete {
		req.Filters = append(req.Filters, pb.WatchCreateRequest_NODELETE)
	}
	return req
}

func (w *watcher) Close() error {
	w.Engine.Close()
	return nil
}

// watchSink writes to the channel that a caller of Watch reads.
type watchSink struct {
	ctx context.Context
	ch  chan WatchResponse
}

func (s watchSink) Offer(r watch.Response) bool {
	select {
	case s.ch <- toWatchResponse(&r):
		return true
	default:
		return false
	}
}

func (s watchSink) Put(r watch.Response, stop <-chan struct{}) bool {
	select {
	case s.ch <- toWatchResponse(&r):
		return true
	case <-s.ctx.Done():
		return false
	case <-stop:
		return false
	}
}

func (s watchSink) Close() { close(s.ch) }

func toWatchResponse(r *watch.Response) WatchResponse {
	return WatchResponse{
		Header:          r.Header,
		Events:          r.Events,
		CompactRevision: r.CompactRevision,
		Canceled:        r.Canceled,
		Created:         r.Created,
		CancelReason:    r.CancelReason,
		proven:          r.Proven,
		closeErr:        r.Err,
	}
}
