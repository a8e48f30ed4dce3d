package clientv3_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.uber.org/zap"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	. "github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/internal/clienttest"
	"github.com/quorate/quorate/clientv3/mock/fakeetcd"
)

// gate makes a cluster accept one token, which may change, and records the tokens of requests.
type gate struct {
	mu     sync.Mutex
	accept string
	seen   []string
}

func (g *gate) guard(cluster *fakeetcd.Cluster) {
	check := func(call *fakeetcd.Call) {
		md, _ := metadata.FromIncomingContext(call.Context())
		token := fmt.Sprint(md.Get(rpctypes.TokenFieldNameGRPC))
		g.mu.Lock()
		defer g.mu.Unlock()
		g.seen = append(g.seen, token)
		if token != "["+g.accept+"]" {
			call.Answer(nil, rpctypes.ErrGRPCInvalidAuthToken)
		}
	}
	cluster.On("Range", check)
	cluster.On("Watch", check)
}

func (g *gate) set(accept string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.accept, g.seen = accept, nil
}

func startGated(t *testing.T, accept string, change func(*Config)) (*gate, *Client) {
	t.Helper()
	cluster := clienttest.Start(t, 1)
	g := &gate{accept: accept}
	g.guard(cluster)
	cfg := Config{Endpoints: cluster.Endpoints(), DialOptions: cluster.DialOptions(), Logger: zap.NewNop()}
	change(&cfg)
	c, err := New(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return g, c
}

func TestSetTokenWithCallsInFlight(t *testing.T) {
	g, c := startGated(t, "t0", func(cfg *Config) { cfg.Token = "t0" })
	stop := make(chan struct{})
	var calls sync.WaitGroup
	for range 4 {
		calls.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					_, _ = c.Get(t.Context(), "k")
				}
			}
		})
	}
	for i := range 100 {
		if i%2 == 0 {
			c.SetToken(fmt.Sprint("t", i))
		} else {
			c.SetCredentials("root", fmt.Sprint("p", i))
		}
	}
	close(stop)
	calls.Wait()

	g.set("last")
	c.SetToken("last")
	_, err := c.Get(t.Context(), "k")
	require.NoError(t, err)
	assert.Equal(t, []string{"[last]"}, g.seen, "the previous token is no longer used")
	assert.Equal(t, "t0", c.Token, "the fields are the program's")

	g.set("")
	c.SetToken("")
	_, _ = c.Get(t.Context(), "k")
	assert.Contains(t, g.seen, "[]")
}

// Assigning the field, as programs of the official client do, works before and between calls.
func TestTokenAssignedToTheField(t *testing.T) {
	g, c := startGated(t, "a", func(*Config) {})
	c.Token = "a"
	_, err := c.Get(t.Context(), "k")
	require.NoError(t, err)
	g.set("b")
	c.Token = "b"
	_, err = c.Get(t.Context(), "k")
	require.NoError(t, err)
}

func TestTokenSource(t *testing.T) {
	var calls, running atomic.Int32
	var fail atomic.Pointer[error]
	g, c := startGated(t, "t1", func(cfg *Config) {
		cfg.TokenSource = func(context.Context) (string, error) {
			assert.EqualValues(t, 1, running.Add(1), "called concurrently")
			defer running.Add(-1)
			if err := fail.Load(); err != nil {
				return "", *err
			}
			return fmt.Sprint("t", calls.Add(1)), nil
		}
	})
	require.EqualValues(t, 1, calls.Load(), "by New")
	_, err := c.Get(t.Context(), "k")
	require.NoError(t, err)

	g.set("t2")
	var readers sync.WaitGroup
	for range 20 {
		readers.Go(func() {
			_, err := c.Get(t.Context(), "k")
			assert.NoError(t, err)
		})
	}
	readers.Wait()
	assert.EqualValues(t, 2, calls.Load(), "one new token for all")

	sealed := errors.New("vault is sealed")
	fail.Store(&sealed)
	g.set("t3")
	_, err = c.Get(t.Context(), "k")
	require.ErrorIs(t, err, sealed)
	assert.ErrorContains(t, err, "TokenSource")
	fail.Store(nil)
	_, err = c.Get(t.Context(), "k")
	require.NoError(t, err, "the next call calls the source again")
}

// A watch survives an outage of its token source, whatever error that returns.
func TestWatchSurvivesAnOutageOfItsTokenSource(t *testing.T) {
	for name, sealed := range map[string]error{
		"plain":   errors.New("vault is sealed"),
		"status":  status.Error(codes.PermissionDenied, "vault is sealed"),
		"context": context.Canceled,
	} {
		t.Run(name, func(t *testing.T) {
			var calls atomic.Int32
			g, c := startGated(t, "t1", func(cfg *Config) {
				cfg.TokenSource = func(context.Context) (string, error) {
					n := calls.Add(1)
					if n == 2 || n == 3 {
						return "", sealed
					}
					return fmt.Sprint("t", n), nil
				}
			})
			g.set("t4")
			resp, ok := next(t, c.Watch(t.Context(), "k", WithCreatedNotify()))
			require.True(t, ok)
			require.True(t, resp.Created, "%v", resp.Err())
			assert.EqualValues(t, 4, calls.Load())
		})
	}
}

func TestNewFailsWithTheErrorOfItsTokenSource(t *testing.T) {
	sealed := errors.New("vault is sealed")
	_, err := New(Config{
		Endpoints: []string{"http://127.0.0.1:1"}, Logger: zap.NewNop(),
		TokenSource: func(context.Context) (string, error) { return "", sealed },
	})
	require.ErrorIs(t, err, sealed)
}

func TestTokenSourceExcludesOtherCredentials(t *testing.T) {
	source := func(context.Context) (string, error) { return "t", nil }
	for _, cfg := range []Config{{Token: "t"}, {Username: "u"}, {Password: "p"}} {
		cfg.Endpoints, cfg.TokenSource = []string{"http://127.0.0.1:1"}, source
		_, err := New(cfg)
		require.ErrorIs(t, err, ErrMutuallyExclusiveCfg)
		assert.ErrorContains(t, err, "TokenSource")
	}
}
