package cases

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/stats"

	"github.com/quorate/quorate/internal/pause"
	"github.com/quorate/quorate/lab/internal/fatal"
)

// shared is the prefix that the watches to resume watch.
const shared = Prefix + "shared/"

// watchShared makes n watches of the shared prefix, all at the same time.
func watchShared(ctx context.Context, c *clientv3.Client, n int) []clientv3.WatchChan {
	watches := make([]clientv3.WatchChan, n)
	callers := startCallers(n, watches, func(int) clientv3.WatchChan { return c.Watch(ctx, shared, clientv3.WithPrefix()) })
	defer callers.stop()
	callers.call()
	return watches
}

// resumeWatches makes watches with the endpoint of one member, gives the client those of all three, and has the first killed (if it
// led, another one leads before). The time is that from the end of the client's connection to it until other members have created,
// after that, as many watches as it served, both as gRPC's stats handler sees them. A put must then reach every watch once.
func resumeWatches(ctx context.Context, site Site) Sample {
	seen := &eventLog{}
	all := site.Endpoints
	site.Endpoints = all[:1]
	c := openConnected(ctx, site, grpc.WithStatsHandler(seen))
	defer func() { _ = c.Close() }()
	watches := watchShared(ctx, c, site.Size)
	c.SetEndpoints(all...)
	connected := make(map[string]bool)
	fatal.OK(seen.await(ctx, len(all), func(e event) bool {
		first := e.what == connBegun && !connected[e.address]
		connected[e.address] = connected[e.address] || first
		return first
	}))
	deliver(ctx, c, watches, "before")
	_, serving, _ := strings.Cut(all[0], "://")
	took := killServing(ctx, site.Control, seen, serving, len(watches)+1) // with that of openConnected
	deliver(ctx, c, watches, "after the member was killed")
	return Sample{"time-s": took.Seconds()}
}

// killServing kills the member that serves the watches and returns how long after the
// loss of the connection to it the last of them was created elsewhere.
func killServing(ctx context.Context, control Control, seen *eventLog, address string, watches int) time.Duration {
	asked := time.Now()
	fatal.If(control.Kill(ctx, address))
	lost := fatal.OK(seen.await(ctx, 1, func(e event) bool {
		return e.what == connEnded && e.address == address && !e.at.Before(asked)
	}))
	resumed := fatal.OK(seen.await(ctx, watches, func(e event) bool {
		return e.what == watchCreated && e.address != address && !e.at.Before(lost)
	}))
	return resumed.Sub(lost)
}

// deliver puts a key that all watches watch and returns when all have delivered it.
func deliver(ctx context.Context, c *clientv3.Client, watches []clientv3.WatchChan, name string) {
	resp := fatal.OK(c.Put(ctx, shared+name, "value"))
	for _, w := range watches {
		fatal.If(expect(w, shared+name, resp.Header.Revision))
	}
}

// eventLog notes when members create watches for a client, and when its connections to them begin and end. It is a stats
// handler of gRPC.
type eventLog struct {
	mu     sync.Mutex
	events []event
}

// event is an event of a connection to a member.
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
