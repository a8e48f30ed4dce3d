package lease

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"

	"github.com/quorate/quorate/internal/pause"
	"github.com/quorate/quorate/observe"
)

// fakeStreams opens streams to a server that the test scripts.
type fakeStreams struct {
	progress atomic.Int32 // calls of Progress

	mu     sync.Mutex
	opened []*fakeStream
	next   []error // arguments of Next
	pauses int
	wakes  int

	// Hooks; each may be nil.
	onOpen  func(ctx context.Context, n int) error // n counts from 1
	onSend  func(s *fakeStream, id int64) error
	onNext  func(ctx context.Context, err error) error
	onPause func(ctx context.Context, err error) error
}

// fakeStream is a stream that fakeStreams opened.
type fakeStream struct {
	ctx     context.Context
	number  int
	removed chan struct{}
	answers chan *pb.LeaseKeepAliveResponse
	broken  chan error

	mu   sync.Mutex
	sent []sent
}

type sent struct {
	id int64
	at time.Time
}

func (f *fakeStreams) Open(ctx context.Context) (pb.Lease_LeaseKeepAliveClient, error) {
	f.mu.Lock()
	s := &fakeStream{
		ctx: ctx, number: len(f.opened) + 1, removed: make(chan struct{}),
		answers: make(chan *pb.LeaseKeepAliveResponse, 100_000), broken: make(chan error, 1),
	}
	f.opened = append(f.opened, s)
	f.mu.Unlock()
	if f.onOpen != nil {
		if err := f.onOpen(ctx, s.number); err != nil {
			return nil, err
		}
	}
	return &fakeClient{fakeStream: s, streams: f}, nil
}

func (f *fakeStreams) Progress() { f.progress.Add(1) }

func (f *fakeStreams) Next(ctx context.Context, err error) error {
	f.mu.Lock()
	f.next = append(f.next, err)
	f.mu.Unlock()
	if f.onNext != nil {
		return f.onNext(ctx, err)
	}
	return nil
}

func (f *fakeStreams) Pause(ctx context.Context, err error) error {
	f.mu.Lock()
	f.pauses++
	f.mu.Unlock()
	if f.onPause != nil {
		return f.onPause(ctx, err)
	}
	return pause.For(ctx, time.Second)
}

func (f *fakeStreams) Wake() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.wakes++
}

// woken returns the number of calls of Wake since the last woken.
func (f *fakeStreams) woken() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := f.wakes
	f.wakes = 0
	return n
}

func (f *fakeStreams) Leaderless() bool { return false }

func (f *fakeStreams) Removed() <-chan struct{} { return f.last().removed }

func (f *fakeStreams) last() *fakeStream {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.opened[len(f.opened)-1]
}

// stream returns the n-th opened stream, counted from 0.
func (f *fakeStreams) stream(n int) *fakeStream {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.opened[n]
}

// ends returns the errors that the streams ended with, and how often Pause was called.
func (f *fakeStreams) ends() (errs []error, pauses int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append(errs, f.next...), f.pauses
}

func (f *fakeStreams) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.opened)
}

type fakeClient struct {
	grpc.ClientStream
	*fakeStream
	streams *fakeStreams
}

func (c *fakeClient) Send(r *pb.LeaseKeepAliveRequest) error {
	if err := c.ctx.Err(); err != nil {
		return err
	}
	c.mu.Lock()
	c.sent = append(c.sent, sent{r.ID, time.Now()})
	c.mu.Unlock()
	if c.streams.onSend == nil {
		c.answer(r.ID, ttl)
		return nil
	}
	return c.streams.onSend(c.fakeStream, r.ID)
}

func (c *fakeClient) Recv() (*pb.LeaseKeepAliveResponse, error) {
	select {
	case resp := <-c.answers:
		return resp, nil
	case err := <-c.broken:
		return nil, err
	case <-c.ctx.Done():
		return nil, c.ctx.Err()
	}
}

func (s *fakeStream) answer(id int64, ttl time.Duration) {
	s.answers <- answerOf(id, int64(ttl/time.Second))
}

func (s *fakeStream) requests() []sent {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]sent(nil), s.sent...)
}

// startEngine returns an engine that is closed at the end of the test.
func startEngine(t *testing.T, f *fakeStreams) *Engine {
	e := New(Config{Streams: f, FirstAnswer: firstAnswer, Observer: observe.None{}})
	t.Cleanup(func() { e.Close(context.Canceled) })
	return e
}

func subscribe(t *testing.T, e *Engine, ctx context.Context, id int64, s Subscriber) *probe { //nolint:revive // t comes first
	p := newProbe(id, s)
	require.NoError(t, e.Subscribe(ctx, id, &p.Subscriber))
	return p
}
