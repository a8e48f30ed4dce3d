//go:build experiment

package failover_test

import (
	"context"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/quorate/quorate/lab"
)

// bare makes gets and puts without the client under test: over a plain connection to each member, past the links. They show
// what machine and members take by themselves, so that a busy machine is not taken for a fault of the client.
type bare struct {
	prefix  string
	stop    context.CancelFunc
	running sync.WaitGroup

	mu      sync.Mutex
	longest map[*lab.Member]time.Duration
}

func beginBare(c *lab.Cluster, prefix string) *bare {
	ctx, stop := context.WithCancel(context.Background())
	b := &bare{prefix: prefix, stop: stop, longest: map[*lab.Member]time.Duration{}}
	for _, m := range c.Members() {
		kv := pb.NewKVClient(m.Conn())
		b.repeat(ctx, m, func(ctx context.Context) error {
			_, err := kv.Range(ctx, &pb.RangeRequest{Key: []byte(b.prefix)})
			return err
		})
		b.repeat(ctx, m, func(ctx context.Context) error {
			_, err := kv.Put(ctx, &pb.PutRequest{Key: []byte(b.prefix + m.Name())})
			return err
		})
	}
	return b
}

// repeat makes one kind of call, with pauses, until ctx ends. A call that fails counts with the time that it took.
func (b *bare) repeat(ctx context.Context, m *lab.Member, call func(context.Context) error) {
	b.running.Go(func() {
		for ctx.Err() == nil {
			began := time.Now()
			calling, cancel := context.WithTimeout(ctx, deadline)
			_ = call(calling)
			cancel()
			// The pause belongs to it: one that lasts too long is what the machine does to every caller.
			time.Sleep(pause)
			b.mu.Lock()
			b.longest[m] = max(b.longest[m], time.Since(began)-pause)
			b.mu.Unlock()
		}
	})
}

func (b *bare) end() {
	b.stop()
	b.running.Wait()
}

// slowest returns the longest time that a call to any member but the victim took.
func (b *bare) slowest(victim *lab.Member) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	var longest time.Duration
	for m, took := range b.longest {
		if m != victim {
			longest = max(longest, took)
		}
	}
	return longest
}
