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
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// cluster is a Connector that leads to a model of etcd in memory. All shards of an
// engine share it. Tests say what goes wrong.
type cluster struct {
	mu      sync.Mutex
	hist    *history
	streams []*stream // that live
	opened  int       // ever
	gone    chan struct{}
	denies  string        // the refusal of every create, "" if none
	spares  []byte        // a key whose creates are not refused
	token   int           // the one that servers accept
	curt    bool          // any other is a denied permission, as before etcd 3.5.6
	late    int           // streams to come that still carry the one before
	asked   int           // progress requests
	creates int           // requests, of ranges that are not empty
	become  func(*server) // what kind of server another stream meets

	open        func(ctx context.Context) error // before each stream
	next        func(cause error) error         // what follows the end of one
	send        func(ctx context.Context)       // before each request
	invalidates bool
	invalidated []error     // that InvalidateToken was given
	noLeads     atomic.Bool // no endpoint has a leader
	worked      atomic.Int32
	wakes       atomic.Int32
	tries       atomic.Int32 // streams that were to be opened, where the test counts them
	causes      []error      // that Next was given

	resumed []resumption // that Resumed was told
}

type resumption struct {
	watches int
	gap     time.Duration
}

func newCluster() *cluster { return &cluster{hist: newHistory(), gone: make(chan struct{})} }

// engine returns an engine that is closed at the end of the test.
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
	select {
	case <-time.After(10 * time.Millisecond):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (c *cluster) Wake() { c.wakes.Add(1) }

func (c *cluster) Progress() { c.worked.Add(1) }

func (c *cluster) Leaderless() bool { return c.noLeads.Load() }

func (c *cluster) Removed() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.gone
}

func (c *cluster) InvalidateToken(refusal error) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.invalidated = append(c.invalidated, refusal)
	return c.invalidates && refusal.Error() != emptyRange
}

func (c *cluster) Resumed(watches int, gap time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.resumed = append(c.resumed, resumption{watches, gap})
}

// resumptions returns what Resumed was told.
func (c *cluster) resumptions() []resumption {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.resumed)
}

// turn replaces the servers by others for streams to come.
func (c *cluster) turn(become func(*server)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.become = become
}

// serve replaces the servers by others: all streams break.
func (c *cluster) serve(become func(*server)) {
	c.turn(become)
	for _, st := range c.live() {
		st.breakDown()
	}
}

// expire makes the servers refuse the token of all streams that there are.
func (c *cluster) expire() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.token++
}

// remove takes the endpoint that streams are on out of the client's.
func (c *cluster) remove() {
	c.mu.Lock()
	defer c.mu.Unlock()
	close(c.gone)
	c.gone = make(chan struct{})
}

// write makes as many revisions, one after the other.
func (c *cluster) write(revisions int, keys ...string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for range revisions {
		c.hist.write(keys...)
		for _, st := range c.streams {
			st.srv.notify()
			st.flush()
		}
	}
}

func (c *cluster) compact(rev int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.hist.compacted = rev
}

// live returns the streams there are.
func (c *cluster) live() []*stream {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.streams)
}

// ids tells which streams there are.
func (c *cluster) ids() []int {
	c.mu.Lock()
	defer c.mu.Unlock()
	ids := make([]int, 0, len(c.streams))
	for _, st := range c.streams {
		ids = append(ids, st.id)
	}
	return ids
}

// watchers returns how many the servers have, for each stream.
func (c *cluster) watchers() []int {
	c.mu.Lock()
	defer c.mu.Unlock()
	counts := make([]int, 0, len(c.streams))
	for _, st := range c.streams {
		counts = append(counts, len(st.srv.watchers))
	}
	return counts
}

// stream is one stream to the cluster, at the client's end.
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

// delivery is what arrives at the client: a response, or the end of the stream.
type delivery struct {
	resp *pb.WatchResponse
	err  error
}

// breakDown ends the stream after what was sent.
func (st *stream) breakDown() { st.down <- delivery{err: errBroken} }

// Send hands a request to the server.
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
		st.c.asked++
	}
	if r := req.GetCreateRequest(); r != nil && !bytes.Equal(r.Key, r.RangeEnd) {
		st.c.creates++
	}
	if reason := st.refusal(req.GetCreateRequest()); reason != "" {
		st.srv.control = append(st.srv.control, refused(reason))
	} else if err := st.srv.handle(req, nil); err != nil {
		return err
	}
	st.flush()
	return nil
}

// refusal says why a create is refused, "" if it is not. It needs the lock.
func (st *stream) refusal(req *pb.WatchCreateRequest) string {
	switch {
	case req == nil:
		return ""
	case st.token != st.c.token && st.c.curt:
		return rpctypes.ErrGRPCPermissionDenied.Error()
	case st.token != st.c.token:
		return rpctypes.ErrGRPCInvalidAuthToken.Error()
	case bytes.Equal(req.Key, st.c.spares):
		return ""
	default:
		return st.c.denies
	}
}

// flush sends all that is ready. It needs the lock.
func (st *stream) flush() {
	for len(st.srv.control)+len(st.srv.events) > 0 {
		st.srv.sendControl()
		st.srv.sendEvents()
	}
	for resp := st.srv.receive(); resp != nil; resp = st.srv.receive() {
		st.down <- delivery{resp: resp}
	}
}

// sync serves those that are behind every 100 ms, as etcd does.
func (st *stream) sync() {
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	for {
		st.c.mu.Lock()
		st.srv.sync()
		st.flush()
		st.c.mu.Unlock()
		select {
		case <-ticker.C:
		case <-st.ctx.Done():
			st.c.mu.Lock()
			st.c.streams = slices.DeleteFunc(st.c.streams, func(o *stream) bool { return o == st })
			st.c.mu.Unlock()
			return
		}
	}
}

// Recv returns what the server has sent.
func (st *stream) Recv() (*pb.WatchResponse, error) {
	select {
	case d := <-st.down:
		return d.resp, d.err
	case <-st.ctx.Done():
		return nil, status.FromContextError(st.ctx.Err()).Err()
	}
}

var errBroken = errors.New("the stream broke")

// call is a call of Watch, and its channel.
type call struct {
	*reading
	cancel   context.CancelFunc
	returned chan struct{}
}

// watch calls Watch in the background.
func watch(ctx context.Context, e *Engine, req Request) *call {
	ctx, cancel := context.WithCancel(ctx)
	c := &call{newReading(), cancel, make(chan struct{})}
	context.AfterFunc(ctx, func() { close(c.left) })
	go func() {
		defer close(c.returned)
		e.Watch(ctx, req, c.reading)
	}()
	return c
}

// all is the range of all keys that tests write.
func all(rev int64) Request { return Request{Key: []byte("a"), End: []byte("z"), Rev: rev} }

// read returns the revisions of the next events, n of them.
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

// assertRevisions checks that revisions are from, ..., to, each once.
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
