package quorate_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/resolver"

	"github.com/quorate/quorate"
	"github.com/quorate/quorate/balancer"
	"github.com/quorate/quorate/internal/grpctest"
	"github.com/quorate/quorate/keepalive"
)

// over returns a way to connect that uses the Channel.
func over(t *testing.T, c quorate.Channel) func(string, resolver.Builder, grpc.DialOption) (closer, error) {
	t.Helper()
	return func(target string, names resolver.Builder, dialer grpc.DialOption) (closer, error) {
		c.TransportCredentials, c.Resolvers = insecure.NewCredentials(), []resolver.Builder{names}
		options, err := c.DialOptions()
		require.NoError(t, err)
		return grpc.NewClient(target, append(options, dialer)...)
	}
}

var repeatable = quorate.Channel{Calls: keepalive.Calls{Repeatable: []string{emptyCall}}}

// Many more calls hang on a frozen backend than the budget of hedges has tokens.
func TestNoRepeatableCallFailsUnderLoad(t *testing.T) {
	for name, tc := range map[string]struct {
		callers, frozen int
		limit           time.Duration
	}{
		"8 callers":                            {8, 1, 300 * time.Millisecond},
		"300 callers":                          {300, 1, 300 * time.Millisecond},
		"the second attempt meets another one": {30, 2, 600 * time.Millisecond},
	} {
		grpctest.Bubble(t, name, func(t *testing.T) {
			backends, client, stop := serve(t, over(t, repeatable))
			defer stop()
			read := reads(client)
			load(t, 8, 2*time.Second, read)
			time.AfterFunc(50*time.Millisecond, func() {
				for _, b := range backends[:tc.frozen] {
					b.freeze()
				}
			})
			slowest, failed := load(t, tc.callers, 300*time.Millisecond, read)
			t.Logf("slowest %v", slowest)
			assert.LessOrEqual(t, slowest, tc.limit)
			assert.Empty(t, failed)
		})
	}
}

// listener is the Watcher of a caller. It counts the calls that are overdue.
type listener struct{ overdue atomic.Int64 }

func (l *listener) Overdue() { l.overdue.Add(1) }
func (*listener) Cut(error)  {}

func TestAnAttemptOfTheCallerIsHonoured(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &observer{picks: make(map[string]int)}
		channel := repeatable
		channel.Observer = o
		backends, client, stop := serve(t, over(t, channel))
		defer stop()
		read := reads(client)
		load(t, 8, 2*time.Second, read)
		before := connections(backends)
		bulk := &balancer.Attempt{Conn: balancer.Bulk}
		require.NoError(t, read(balancer.WithAttempt(t.Context(), bulk)))
		assert.Equal(t, before+1, connections(backends), "a connection of its class")
		require.NotNil(t, bulk.Endpoint())
		assert.True(t, bulk.Answered())

		backends[0].freeze()
		l := new(listener)
		load(t, 30, time.Second, func(ctx context.Context) error {
			return read(balancer.WithAttempt(ctx, &balancer.Attempt{Watcher: l}))
		})
		assert.Positive(t, l.overdue.Load())
	})
}

func connections(backends []*backend) (sum int64) {
	for _, b := range backends {
		sum += b.accepted.Load()
	}
	return sum
}
