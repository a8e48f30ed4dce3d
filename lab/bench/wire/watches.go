package wire

import (
	"context"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/stats"
)

// Watches notes when members create watches for a client, and when its connections to
// them begin and end. It is a stats handler of gRPC.
type Watches struct {
	mu      sync.Mutex
	log     []Event
	changed chan struct{} // closed and replaced when there is another event
}

// Event is something that a client sees of a member.
type Event struct {
	What    What
	Address string
	At      time.Time
}

// What is the kind of an event.
type What int

// What happens.
const (
	ConnBegun What = iota
	ConnEnded
	WatchCreated
)

// NewWatches returns a Watches that has seen nothing.
func NewWatches() *Watches { return &Watches{changed: make(chan struct{})} }

// DialOption makes a client report to w.
func (w *Watches) DialOption() grpc.DialOption { return grpc.WithStatsHandler(w) }

// Await waits until there were n events that count, of all so far and to come, and returns the time of
// the n-th. It asks once about each event.
func (w *Watches) Await(ctx context.Context, n int, counts func(Event) bool) (time.Time, error) {
	for seen, next := 0, 0; ; {
		w.mu.Lock()
		events, changed := w.log[next:], w.changed
		w.mu.Unlock()
		for _, e := range events {
			next++
			if !counts(e) {
				continue
			}
			if seen++; seen == n {
				return e.At, nil
			}
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return time.Time{}, fmt.Errorf("%d of %d events: %w", seen, n, context.Cause(ctx))
		}
	}
}

func (w *Watches) note(what What, address string, at time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.log = append(w.log, Event{what, address, at})
	close(w.changed)
	w.changed = make(chan struct{})
}

type (
	streamKey struct{} // of the address of a stream of watches
	connKey   struct{}
)

// TagRPC implements stats.Handler.
func (w *Watches) TagRPC(ctx context.Context, info *stats.RPCTagInfo) context.Context {
	if info.FullMethodName != pb.Watch_Watch_FullMethodName {
		return ctx
	}
	return context.WithValue(ctx, streamKey{}, new(atomic.Value))
}

// HandleRPC implements stats.Handler.
func (w *Watches) HandleRPC(ctx context.Context, s stats.RPCStats) {
	address, ok := ctx.Value(streamKey{}).(*atomic.Value)
	if !ok {
		return
	}
	switch s := s.(type) {
	case *stats.OutHeader:
		address.Store(s.RemoteAddr.String())
	case *stats.InPayload:
		if resp, ok := s.Payload.(*pb.WatchResponse); ok && resp.GetCreated() && !resp.GetCanceled() {
			w.note(WatchCreated, address.Load().(string), s.RecvTime)
		}
	}
}

// TagConn implements stats.Handler.
func (w *Watches) TagConn(ctx context.Context, info *stats.ConnTagInfo) context.Context {
	return context.WithValue(ctx, connKey{}, info.RemoteAddr)
}

// HandleConn implements stats.Handler.
func (w *Watches) HandleConn(ctx context.Context, s stats.ConnStats) {
	remote, ok := ctx.Value(connKey{}).(net.Addr)
	if !ok {
		return
	}
	switch s.(type) {
	case *stats.ConnBegin:
		w.note(ConnBegun, remote.String(), time.Now())
	case *stats.ConnEnd:
		w.note(ConnEnded, remote.String(), time.Now())
	}
}
