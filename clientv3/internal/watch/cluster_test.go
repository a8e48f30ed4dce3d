package watch

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/internal/pause"
)

// cluster is a Connector to an in-memory model of etcd, which all shards of an engine share. Tests set its faults.
type cluster struct {
	mu               sync.Mutex
	hist             *history
	streams          []*stream // open
	opened           int       // in total
	gone             chan struct{}
	denies           string        // the refusal of every create, "" if none
	spares           []byte        // key that is exempt from denies
	token            int           // the accepted token
	deniesBadTokens  bool          // another token is answered with "permission denied", as before etcd 3.5.6
	late             int           // further streams that carry the previous token
	progressRequests int           // progress requests
	creates          int           // requests, of ranges that are not empty
	received         int           // bytes of events
	become           func(*server) // changes the server of each new stream

	open        func(ctx context.Context) error // called before each stream
	next        func(cause error) error         // called at the end of one
	send        func(ctx context.Context)       // called before each request
	invalidates bool
	invalidated []error     // arguments of InvalidateToken
	noLeads     atomic.Bool // whether no endpoint has a leader
	worked      atomic.Int32
	wakes       atomic.Int32
	tries       atomic.Int32 // attempts to open a stream, in tests that count them
	causes      []error      // arguments of Next

	resumed []resumption // arguments of Resumed
}

type resumption struct {
	watches int
	gap     time.Duration
}

func newCluster() *cluster { return &cluster{hist: newHistory(), gone: make(chan struct{})} }

// inBubble runs a test on a cluster in virtual time, and withEngine on an engine over it.
func inBubble(t *testing.T, test func(t *testing.T, c *cluster)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(t, newCluster()) })
}

func withEngine(t *testing.T, test func(t *testing.T, c *cluster, e *Engine)) {
	t.Helper()
	inBubble(t, func(t *testing.T, c *cluster) { test(t, c, c.engine(t)) })
}

func (c *cluster) engine(t *testing.T) *Engine { return c.engineWith(t, 1<<20, zap.NewNop()) }

func (c *cluster) engineWith(t *testing.T, maxBuffer int, logger *zap.Logger) *Engine {
	e := New(c.config(maxBuffer, logger))
	t.Cleanup(e.Close)
	return e
}

func (c *cluster) config(maxBuffer int, logger *zap.Logger) Config {
	return Config{
		Connect: func() Connector { return c }, MaxBuffer: maxBuffer, Budget: NewBudget(8 * maxBuffer),
		Logger: func() *zap.Logger { return logger },
	}
}

func (c *cluster) Open(ctx context.Context, leader bool) (pb.Watch_WatchClient, error) {
	if c.open != nil {
		if err := c.open(ctx); err != nil {
			return nil, err
		}
	}
	md, _ := metadata.FromOutgoingContext(ctx)
	strict := leader || len(md.Get(rpctypes.MetadataRequireLeaderKey)) > 0
	if strict && c.noLeads.Load() {
		return nil, rpctypes.ErrGRPCNoLeader
	}
	st := &stream{ctx: ctx, c: c, strict: strict, srv: newServer(c.hist), down: make(chan delivery, 1<<16)}
	st.srv.fragment = 1000
	c.mu.Lock()
	st.token = c.token
	if c.late > 0 {
		c.late--
		st.token--
	}
	if c.become != nil {
		c.become(st.srv)
	}
	c.streams = append(c.streams, st)
	c.opened++
	st.id = c.opened
	c.mu.Unlock()
	go st.sync()
	return st, nil
}

func (c *cluster) Next(ctx context.Context, cause error) error {
	c.mu.Lock()
	c.causes = append(c.causes, cause)
	c.mu.Unlock()
	if c.next != nil {
		return c.next(cause)
	}
	return pause.For(ctx, 10*time.Millisecond)
}

func (c *cluster) Wake() { c.wakes.Add(1) }

func (c *cluster) Progress() { c.worked.Add(1) }

func (c *cluster) Leaderless() bool { return c.noLeads.Load() }

func (c *cluster) Removed() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.gone
}

func (c *cluster) InvalidateToken(refusal error) (again, another bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.invalidated = append(c.invalidated, refusal)
	again = c.invalidates && refusal.Error() != emptyRange
	return again, again
}

func (c *cluster) Resumed(watches int, gap time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.resumed = append(c.resumed, resumption{watches, gap})
}

func (c *cluster) resumptions() []resumption {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.resumed)
}

// replaceServers replaces the servers of new streams.
func (c *cluster) replaceServers(become func(*server)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.become = become
}

// breakAll breaks all streams.
func (c *cluster) breakAll() {
	for _, st := range c.live() {
		st.breakDown()
	}
}

// expire invalidates the token of all open streams.
func (c *cluster) expire() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.token++
}

// remove removes the endpoint of the open streams from the client's endpoints.
func (c *cluster) remove() {
	c.mu.Lock()
	defer c.mu.Unlock()
	close(c.gone)
	c.gone = make(chan struct{})
}

// write makes the given number of revisions.
func (c *cluster) write(revisions int, keys ...string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for range revisions {
		c.hist.write(keys...)
		for _, st := range c.streams {
			st.srv.notify()
			st.flushLocked()
		}
	}
}

func (c *cluster) compact(rev int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.hist.compacted = rev
}

// count adds to the bytes of events that were received.
func (c *cluster) count(resp *pb.WatchResponse) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.received += extentOf(resp.GetEvents()).bytes
}

func (c *cluster) live() []*stream {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.streams)
}

// ids returns the ids of the open streams.
func (c *cluster) ids() []int {
	c.mu.Lock()
	defer c.mu.Unlock()
	ids := make([]int, 0, len(c.streams))
	for _, st := range c.streams {
		ids = append(ids, st.id)
	}
	return ids
}

// watchers returns the number of watchers on each open stream.
func (c *cluster) watchers() []int {
	c.mu.Lock()
	defer c.mu.Unlock()
	counts := make([]int, 0, len(c.streams))
	for _, st := range c.streams {
		counts = append(counts, len(st.srv.watchers))
	}
	return counts
}

// created returns how many watches were requested.
func (c *cluster) created() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.creates
}

// stream is the client's end of one stream to the cluster.
type stream struct {
	grpc.ClientStream
	ctx    context.Context
	c      *cluster
	id     int // the first stream is 1
	strict bool
	token  int
	srv    *server
	down   chan delivery
}

// delivery is a response, or the end of the stream.
type delivery struct {
	resp *pb.WatchResponse
	err  error
}

// breakDown ends the stream after the responses already sent.
func (st *stream) breakDown() { st.down <- delivery{err: errBroken} }

func (st *stream) Send(req *pb.WatchRequest) error {
	if st.c.send != nil {
		st.c.send(st.ctx)
	}
	if st.ctx.Err() != nil {
		return io.EOF
	}
	st.c.mu.Lock()
	defer st.c.mu.Unlock()
	if req.GetProgressRequest() != nil {
		st.c.progressRequests++
	}
	if r := req.GetCreateRequest(); r != nil && !bytes.Equal(r.Key, r.RangeEnd) {
		st.c.creates++
	}
	if reason := st.refusalLocked(req.GetCreateRequest()); reason != "" {
		st.srv.control = append(st.srv.control, refused(reason))
	} else if err := st.srv.handle(req, nil); err != nil {
		return err
	}
	st.flushLocked()
	return nil
}

// refusalLocked returns why a create is refused, or "".
func (st *stream) refusalLocked(req *pb.WatchCreateRequest) string {
	switch {
	case req == nil:
		return ""
	case st.token != st.c.token && st.c.deniesBadTokens:
		return rpctypes.ErrGRPCPermissionDenied.Error()
	case st.token != st.c.token:
		return rpctypes.ErrGRPCInvalidAuthToken.Error()
	case bytes.Equal(req.Key, st.c.spares):
		return ""
	default:
		return st.c.denies
	}
}

// flushLocked sends everything that is ready.
func (st *stream) flushLocked() {
	for len(st.srv.control)+len(st.srv.events) > 0 {
		st.srv.sendControl()
		st.srv.sendEvents()
	}
	for resp := st.srv.receive(); resp != nil; resp = st.srv.receive() {
		st.down <- delivery{resp: resp}
	}
}

// sync serves watchers that are behind every 100 ms, as etcd does.
func (st *stream) sync() {
	tick := time.Tick(100 * time.Millisecond)
	for {
		st.c.mu.Lock()
		st.srv.sync()
		st.flushLocked()
		st.c.mu.Unlock()
		select {
		case <-tick:
		case <-st.ctx.Done():
			st.c.mu.Lock()
			st.c.streams = slices.DeleteFunc(st.c.streams, func(o *stream) bool { return o == st })
			st.c.mu.Unlock()
			return
		}
	}
}

func (st *stream) Recv() (*pb.WatchResponse, error) {
	select {
	case d := <-st.down:
		st.c.count(d.resp)
		return d.resp, d.err
	case <-st.ctx.Done():
		return nil, status.FromContextError(st.ctx.Err()).Err()
	}
}

var errBroken = errors.New("the stream broke")

// call is a call of Watch and its channel.
type call struct {
	*chanSink
	cancel   context.CancelFunc
	returned chan struct{}
}

func watch(ctx context.Context, e *Engine, req Request) *call {
	ctx, cancel := context.WithCancel(ctx)
	c := &call{newChanSink(), cancel, make(chan struct{})}
	context.AfterFunc(ctx, func() { close(c.left) })
	go func() {
		defer close(c.returned)
		e.Watch(ctx, req, c.chanSink)
	}()
	return c
}

// callWatch is watch, and returns when Watch has returned.
func callWatch(ctx context.Context, e *Engine, req Request) *call {
	c := watch(ctx, e, req)
	<-c.returned
	return c
}

// all returns a watch of all keys that tests write.
func all(rev int64) Request { return Request{Key: []byte("a"), End: []byte("z"), Rev: rev} }

// read returns the revisions of the next n events.
func (c *call) read(n int) []int64 {
	var got []int64
	for len(got) < n {
		r, ok := <-c.ch
		if !ok {
			return got
		}
		got = append(got, revisions(r.Events)...)
	}
	return got
}

// assertRevisions checks that the revisions are from, ..., to, each once.
func assertRevisions(t *testing.T, from, to int64, got []int64) {
	t.Helper()
	for i, rev := range got {
		if rev != from+int64(i) {
			t.Fatalf("revision %d instead of %d, event %d of %d", rev, from+int64(i), i, len(got))
		}
	}
	if len(got) != int(to-from+1) {
		t.Fatalf("%d events, not %d", len(got), to-from+1)
	}
}
