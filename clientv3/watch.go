package clientv3

import (
	"cmp"
	"context"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/clientv3/internal/lineage"
	"github.com/quorate/quorate/clientv3/internal/watch"
	"github.com/quorate/quorate/internal/channel"
	"github.com/quorate/quorate/observe"
)

// The two types of an [Event].
const (
	EventTypeDelete = mvccpb.Event_DELETE
	EventTypePut    = mvccpb.Event_PUT
)

const (
	// AutoWatchID lets the server choose the id. This client chooses its own ids.
	AutoWatchID = 0

	// InvalidWatchID is the id in responses that belong to no single watch.
	InvalidWatchID = -1
)

// Event is one change of one key. A program may retain any part of it: a part keeps at most 512
// bytes of the rest in memory.
type Event = mvccpb.Event

// WatchChan delivers the responses of a watch. It is closed when the watch has
// ended.
type WatchChan <-chan WatchResponse

// Watcher watches keys.
type Watcher interface {
	// Watch watches a key, or the range set by the options. It delivers every
	// change from the revision in [WithRev] on, or every change after the call
	// without WithRev. It returns when a server has created the watch or ctx has
	// ended.
	//
	// A watch is ordered, without gaps or duplicates, and never splits a revision. That
	// holds through lost connections, membership and leader changes, and expired tokens.
	// A watch ends by itself only for one of these reasons, which its last response
	// reports ([WatchResponse.Err]):
	//
	//   - a revision that it has not delivered yet was compacted
	//     (rpctypes.ErrCompacted),
	//   - the server rejects it, for example without permission
	//     (rpctypes.ErrPermissionDenied),
	//   - the cluster was replaced or restored from a backup
	//     (*[ClusterChangedError]),
	//   - an interceptor in Config.DialOptions fails with an error that is no gRPC status,
	//   - ctx was made by [WithRequireLeader] and no reachable endpoint knows a
	//     leader (rpctypes.ErrNoLeader).
	//
	// A slow reader does not delay other watches. The client buffers unread responses up to
	// Config.MaxWatchBufferBytes, or less when all watches of the client together approach
	// MaxTotalWatchBufferBytes. Past that the watch pauses, and resumes when the reader has read
	// half of the buffer. A paused watch costs the server nothing. If the revision at which it
	// paused is compacted before it resumes, the watch ends with rpctypes.ErrCompacted and a
	// CancelReason that says so.
	//
	// When ctx ends, or the watcher or its client is closed, the channel is closed
	// without a last response. A program must cancel ctx when it no longer reads
	// the channel. If ctx has already ended, or the watcher is closed, Watch
	// returns a closed channel.
	Watch(ctx context.Context, key string, opts ...OpOption) WatchChan

	// RequestProgress requests a progress notification for all watches whose
	// contexts have the same outgoing metadata as ctx. They receive a response for
	// which [WatchResponse.IsProgressNotify] is true, unless the server is still
	// sending them older events. The error is ctx's, or says that the watcher is
	// closed.
	RequestProgress(ctx context.Context) error

	// Close ends all watches; their channels are closed. It returns nil.
	Close() error
}

// WatchResponse is what a [WatchChan] delivers: events, or a notification about the
// watch itself.
type WatchResponse struct {
	// Header is that of the server's response. It is never nil.
	Header *pb.ResponseHeader
	// Events are in the order of their revisions, and hold either all changes of
	// a revision or none.
	Events []*Event

	// CompactRevision is the oldest revision that the server still has. It is set
	// in the last response of a watch that needed an older one.
	CompactRevision int64

	// Canceled marks the last response of a failed watch. Err returns the reason.
	Canceled bool

	// Created marks the response requested by [WithCreatedNotify].
	Created bool

	closeErr error
	proven   bool

	// CancelReason is the text of the reason. It may be empty.
	CancelReason string
}

// WatchEnd returns the last response of a watch that ends with err, for a [Watcher] that a program makes. Its Err returns err,
// or the server's error that err is.
func WatchEnd(err error) WatchResponse {
	return WatchResponse{Header: &pb.ResponseHeader{}, Canceled: true, closeErr: err}
}

// Err returns why the watch ended, and nil for every response but the last. If the
// server ended the watch, it is the server's error, comparable with ==.
func (wr *WatchResponse) Err() error {
	switch {
	case wr.closeErr != nil:
		return rpctypes.Error(wr.closeErr)
	case wr.CompactRevision != 0:
		return rpctypes.ErrCompacted
	case wr.Canceled && wr.CancelReason != "":
		return rpctypes.Error(status.Error(codes.FailedPrecondition, wr.CancelReason))
	case wr.Canceled:
		return rpctypes.ErrFutureRev
	default:
		return nil
	}
}

// IsProgressNotify reports whether the response is a progress notification: all
// events up to its header's revision have been delivered.
func (wr *WatchResponse) IsProgressNotify() bool {
	return len(wr.Events) == 0 && !wr.Canceled && !wr.Created && wr.CompactRevision == 0 && wr.Header.GetRevision() != 0
}

// IsProven reports whether progress notifications of the server are reliable: when
// [WatchResponse.IsProgressNotify] is true, every event up to the header's revision has been
// delivered before. It is set on progress notifications and on the response requested by
// [WithCreatedNotify]. It is false for kine, the grpc-proxy, and etcd before 3.4.25 and 3.5.8,
// which may answer before all events are sent, and over a WatchClient of the program.
func (wr *WatchResponse) IsProven() bool { return wr.proven }

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
