package cases

import (
	"context"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc/stats"

	"github.com/quorate/quorate/internal/pause"
)

// eventLog notes when members create watches for a client, and when its connections to them begin and end. It is a stats
// handler of gRPC.
type eventLog struct {
	mu     sync.Mutex
	events []event
}

// event is something that a client sees of a member.
type event struct {
	what    what
	address string
	at      time.Time
}

type what int

const (
	connBegun what = iota
	connEnded
	watchCreated
)

// await waits until there were n events that count, and returns the time of the n-th.
func (l *eventLog) await(ctx context.Context, n int, counts func(event) bool) (time.Time, error) {
	for seen, next := 0, 0; ; {
		l.mu.Lock()
		events := l.events[next:]
		l.mu.Unlock()
		for _, e := range events {
			next++
			if !counts(e) {
				continue
			}
			if seen++; seen == n {
				return e.at, nil
			}
		}
		if err := pause.For(ctx, time.Millisecond); err != nil {
			return time.Time{}, fmt.Errorf("%d of %d events: %w", seen, n, err)
		}
	}
}

func (l *eventLog) note(what what, address string, at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.events = append(l.events, event{what, address, at})
}

type (
	streamKey struct{} // of the address of a stream
	connKey   struct{}
)

// TagRPC implements stats.Handler.
func (l *eventLog) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context {
	return context.WithValue(ctx, streamKey{}, new(atomic.Value))
}

// HandleRPC implements stats.Handler.
func (l *eventLog) HandleRPC(ctx context.Context, s stats.RPCStats) {
	address := ctx.Value(streamKey{}).(*atomic.Value)
	switch s := s.(type) {
	case *stats.OutHeader:
		address.Store(s.RemoteAddr.String())
	case *stats.InPayload:
		if resp, ok := s.Payload.(*pb.WatchResponse); ok && resp.GetCreated() && !resp.GetCanceled() {
			l.note(watchCreated, address.Load().(string), s.RecvTime)
		}
	}
}

// TagConn implements stats.Handler.
func (l *eventLog) TagConn(ctx context.Context, info *stats.ConnTagInfo) context.Context {
	return context.WithValue(ctx, connKey{}, info.RemoteAddr)
}

// HandleConn implements stats.Handler.
func (l *eventLog) HandleConn(ctx context.Context, s stats.ConnStats) {
	address := ctx.Value(connKey{}).(net.Addr).String()
	switch s.(type) {
	case *stats.ConnBegin:
		l.note(connBegun, address, time.Now())
	case *stats.ConnEnd:
		l.note(connEnded, address, time.Now())
	}
}
