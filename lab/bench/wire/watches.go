package wire

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/stats"
)

// Watches counts the watches that servers have created for a client, by the member
// that did, and notes when connections end. It is a stats handler of gRPC.
type Watches struct {
	mu      sync.Mutex
	streams map[*watchStream]struct{} // those that have not ended
	created []creation                // every watch ever created, in order
	begun   map[string]bool           // addresses that there was a connection to
	lost    map[string][]time.Time    // when connections to an address ended
	changed chan struct{}             // closed and replaced when anything above changes
}

// creation is that of one watch.
type creation struct {
	at      time.Time
	address string
}

// watchStream is one stream of watches.
type watchStream struct {
	address string
	created int
}

// NewWatches returns a Watches that has seen nothing.
func NewWatches() *Watches {
	return &Watches{
		streams: make(map[*watchStream]struct{}),
		begun:   make(map[string]bool),
		lost:    make(map[string][]time.Time),
		changed: make(chan struct{}),
	}
}

// DialOption makes a client report to w.
func (w *Watches) DialOption() grpc.DialOption { return grpc.WithStatsHandler(w) }

// Busiest returns the address of the member with the most watches, and how many
// they are.
func (w *Watches) Busiest() (address string, watches int, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	perMember := make(map[string]int)
	for s := range w.streams {
		perMember[s.address] += s.created
	}
	for a, n := range perMember {
		if n > watches || (n == watches && a < address) {
			address, watches = a, n
		}
	}
	if watches == 0 {
		return "", 0, errors.New("no watch has been created")
	}
	return address, watches, nil
}

// AwaitCreatedElsewhere waits until other members than the one at address have
// created n watches from a time on, and returns when the n-th of these was created.
func (w *Watches) AwaitCreatedElsewhere(ctx context.Context, address string, from time.Time, n int) (time.Time, error) {
	var at time.Time
	seen, next := 0, 0 // watches that count, and the first that has not been looked at
	err := w.await(ctx, func() bool {
		for ; next < len(w.created) && seen < n; next++ {
			if c := w.created[next]; c.address != address && !c.at.Before(from) {
				at = c.at
				seen++
			}
		}
		return seen >= n
	})
	if err != nil {
		return at, fmt.Errorf("%d of %d watches were created elsewhere than at %s: %w", seen, n, address, err)
	}
	return at, nil
}

// AwaitConnected waits until the client has had connections to n members.
func (w *Watches) AwaitConnected(ctx context.Context, n int) error {
	if err := w.await(ctx, func() bool { return len(w.begun) >= n }); err != nil {
		return fmt.Errorf("the client has not connected to %d members: %w", n, err)
	}
	return nil
}

// AwaitLost waits until a connection to address has ended at a time or later, and
// returns when the first did.
func (w *Watches) AwaitLost(ctx context.Context, address string, from time.Time) (time.Time, error) {
	var at time.Time
	err := w.await(ctx, func() bool {
		i := slices.IndexFunc(w.lost[address], func(t time.Time) bool { return !t.Before(from) })
		if i < 0 {
			return false
		}
		at = w.lost[address][i]
		return true
	})
	if err != nil {
		return at, fmt.Errorf("the connection to %s did not end: %w", address, err)
	}
	return at, nil
}

// await waits until condition, which is called with w.mu held, holds.
func (w *Watches) await(ctx context.Context, condition func() bool) error {
	for {
		w.mu.Lock()
		done, changed := condition(), w.changed
		w.mu.Unlock()
		if done {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// update makes a change and tells those who wait.
func (w *Watches) update(change func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change()
	close(w.changed)
	w.changed = make(chan struct{})
}

type streamKey struct{}

// TagRPC implements stats.Handler.
func (w *Watches) TagRPC(ctx context.Context, info *stats.RPCTagInfo) context.Context {
	if info.FullMethodName != pb.Watch_Watch_FullMethodName {
		return ctx
	}
	return context.WithValue(ctx, streamKey{}, &watchStream{})
}

// HandleRPC implements stats.Handler.
func (w *Watches) HandleRPC(ctx context.Context, s stats.RPCStats) {
	stream, ok := ctx.Value(streamKey{}).(*watchStream)
	if !ok {
		return
	}
	switch s := s.(type) {
	case *stats.OutHeader:
		w.update(func() {
			stream.address = s.RemoteAddr.String()
			w.streams[stream] = struct{}{}
		})
	case *stats.InPayload:
		if resp, ok := s.Payload.(*pb.WatchResponse); ok && resp.GetCreated() && !resp.GetCanceled() {
			w.update(func() {
				stream.created++
				w.created = append(w.created, creation{at: s.RecvTime, address: stream.address})
			})
		}
	case *stats.End:
		w.update(func() { delete(w.streams, stream) })
	}
}

type connKey struct{}

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
	address := remote.String()
	switch s.(type) {
	case *stats.ConnBegin:
		w.update(func() { w.begun[address] = true })
	case *stats.ConnEnd:
		w.update(func() { w.lost[address] = append(w.lost[address], time.Now()) })
	}
}
