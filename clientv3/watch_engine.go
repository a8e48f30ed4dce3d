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
	w := &watcher{watch.New(watch.Config{
		MaxBuffer:         c.cfg.maxWatchBuffer(),
		Budget:            watchBudgetOf(c),
		Foreign:           !isOwn(remote),
		FragmentOnRequest: c.cfg.MaxCallRecvMsgSize > 0,
		DisableSplit:      c.cfg.DisableSplitReplay,
		History:           h,
		Read:              func(ctx context.Context, key string) error { return readKey(ctx, c, cmp.Or(key, readyKey)) },
		Logger:            c.GetLogger,
		Connect: func() watch.Connector {
			retrier := c.streamRetrier(pb.Watch_Watch_FullMethodName).Endless()
			wc := &watchConnector{
				Retrier:  retrier,
				remote:   over(c, retrier, remote, pb.NewWatchClient),
				opts:     c.callOpts,
				observer: observerOf(c),
			}
			if !isOwn(remote) {
				return foreignWatchConnector{wc}
			}
			return wc
		},
	})}
	c.watchers.add(w)
	return w
}

// watchBudgetOf returns the budget of the client's watches, or a new one for a
// service without a connection.
func watchBudgetOf(c *Client) *watch.Budget {
	if c.watches == nil {
		return watch.NewBudget(c.cfg.maxTotalWatchBuffer())
	}
	return c.watches
}

func (cfg *Config) maxWatchBuffer() int {
	return cmp.Or(cfg.MaxWatchBufferBytes, defaultMaxWatchBufferBytes)
}

func (cfg *Config) maxTotalWatchBuffer() int {
	return cmp.Or(cfg.MaxTotalWatchBufferBytes, slowWatches*cfg.maxWatchBuffer())
}

// observerOf returns the client's observer, or a no-op if there is none.
func observerOf(c *Client) observe.Observer {
	if c.cfg.Observer == nil {
		return observe.None{}
	}
	return c.cfg.Observer
}

// watchConnector opens the watch streams of one shard.
type watchConnector struct {
	*channel.Retrier
	remote   pb.WatchClient
	opts     []grpc.CallOption
	observer observe.Observer
}

func (wc *watchConnector) Open(ctx context.Context, leader bool) (pb.Watch_WatchClient, error) {
	if leader {
		ctx = WithRequireLeader(ctx)
	}
	return wc.remote.Watch(ctx, wc.opts...)
}

// foreignWatchConnector opens watch streams over a program's own client.
type foreignWatchConnector struct{ *watchConnector }

// Open requires a leader only if the callers do.
func (fc foreignWatchConnector) Open(ctx context.Context, _ bool) (pb.Watch_WatchClient, error) {
	return openForeign(ctx, fc.opts, fc.remote.Watch)
}

func (fc foreignWatchConnector) Next(ctx context.Context, cause error) error {
	if isHalt(cause) {
		return cause
	}
	return fc.Retrier.Next(ctx, cause)
}

func (fc foreignWatchConnector) Leaderless() bool { return false }

func (wc *watchConnector) Resumed(watches int, gap time.Duration) {
	wc.observer.WatchResumed(observe.WatchResumption{Endpoint: wc.Endpoint(), Watches: watches, Gap: gap})
}

type watcher struct {
	engine *watch.Engine
}

func (w *watcher) Watch(ctx context.Context, key string, opts ...OpOption) WatchChan {
	op := OpWatch(key, opts...)
	sink := watchSink{ctx: ctx, ch: make(chan WatchResponse, 1)}
	w.engine.Watch(ctx, watchRequest(&op), sink)
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

func (w *watcher) RequestProgress(ctx context.Context) error { return w.engine.RequestProgress(ctx) }

// Reopen moves the streams of the watches with ctx's metadata to another endpoint. Package
// cache calls it when a stream is stuck.
func (w *watcher) Reopen(ctx context.Context) { w.engine.Reopen(ctx) }

func (w *watcher) Close() error {
	w.engine.Close()
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
