package clientv3_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	. "github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/internal/clienttest"
	"github.com/quorate/quorate/clientv3/mock/fakeetcd"
	"github.com/quorate/quorate/observe"
	"github.com/quorate/quorate/observe/introspect"
)

// streamEvents records the events of watches and leases. Each time it makes a report of the client, as an observer may.
type streamEvents struct {
	observe.None
	client atomic.Pointer[Client]

	mu       sync.Mutex
	resumed  []observe.WatchResumption
	renewals []observe.LeaseRenewal
	losses   []observe.LeaseLoss
}

func (s *streamEvents) WatchResumed(e observe.WatchResumption) {
	s.client.Load().Introspect(introspect.Options{})
	s.mu.Lock()
	defer s.mu.Unlock()
	s.resumed = append(s.resumed, e)
}

func (s *streamEvents) LeaseRenewed(e observe.LeaseRenewal) {
	s.client.Load().Introspect(introspect.Options{})
	s.mu.Lock()
	defer s.mu.Unlock()
	s.renewals = append(s.renewals, e)
}

func (s *streamEvents) LeaseLost(e observe.LeaseLoss) {
	s.client.Load().Introspect(introspect.Options{})
	s.mu.Lock()
	defer s.mu.Unlock()
	s.losses = append(s.losses, e)
}

// startObserved returns a client of a fake cluster, and the events of its observer.
func startObserved(t *testing.T) (*fakeetcd.Cluster, *Client, *streamEvents) {
	t.Helper()
	cluster := clienttest.Start(t, 3)
	events := new(streamEvents)
	c := clienttest.Connect(t, cluster, Config{Observer: events})
	events.client.Store(c)
	return cluster, c, events
}

func TestObserverGetsWatchEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster, c, events := startObserved(t)
		w := c.Watch(t.Context(), "k")
		c.Watch(t.Context(), "another")
		put(t, cluster, "k", 1)
		requireRevs(t, w, 2, 2)
		require.Empty(t, events.resumed)
		for _, m := range cluster.Members() {
			m.BreakConnections()
		}
		put(t, cluster, "k", 1)
		requireRevs(t, w, 3, 3)
		synctest.Wait()
		events.mu.Lock()
		defer events.mu.Unlock()
		require.Len(t, events.resumed, 1)
		require.Equal(t, 2, events.resumed[0].Watches)
		require.Less(t, events.resumed[0].Gap, 10*time.Second)
	})
}

// A lease that expires is lost; one that the client revokes is not.
func TestObserverGetsLeaseEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, c, events := startObserved(t)
		kept, revoked := grant(t, c), grant(t, c)
		ch := keepAlive(t, t.Context(), c, kept)
		time.Sleep(10 * leaseTTL * time.Second)
		requireAlive(t, ch)
		events.mu.Lock()
		renewals := events.renewals
		events.mu.Unlock()
		require.GreaterOrEqual(t, len(renewals), 30)
		for _, r := range renewals {
			require.Equal(t, int64(kept), r.ID)
			require.Equal(t, leaseTTL*time.Second, r.TTL)
			require.GreaterOrEqual(t, r.Margin, r.TTL*2/3-time.Second)
			require.LessOrEqual(t, r.Margin, r.TTL)
		}

		requireAlive(t, keepAlive(t, t.Context(), c, revoked))
		_, err := c.Revoke(t.Context(), revoked)
		require.NoError(t, err)
		behind := NewLease(c)
		defer behind.Close()
		_, err = behind.Revoke(t.Context(), kept)
		require.NoError(t, err)
		time.Sleep(leaseTTL * time.Second)
		requireEnded(t, ch)
		events.mu.Lock()
		defer events.mu.Unlock()
		require.Equal(t, []observe.LeaseLoss{{ID: int64(kept), Err: rpctypes.ErrLeaseNotFound}}, events.losses)
	})
}

// TestSlogHasTheOutageAndNoSecret stops and restarts a cluster under a client that logs everything.
func TestSlogHasTheOutageAndNoSecret(t *testing.T) {
	const token, password, value = "hunter2-token", "hunter2-password", "hunter2-value"
	synctest.Test(t, func(t *testing.T) {
		cluster := clienttest.Start(t, 1)
		out := new(bytes.Buffer)
		endpoint := strings.Replace(cluster.Endpoints()[0], "http://", "http://user:"+password+"@", 1)
		c, err := New(Config{
			Endpoints: []string{endpoint}, DialOptions: cluster.DialOptions(), Token: token,
			Slog: slog.New(slog.NewJSONHandler(out, &slog.HandlerOptions{Level: slog.LevelDebug})),
		})
		require.NoError(t, err)
		defer func() { require.NoError(t, c.Close()) }()
		w := c.Watch(t.Context(), "k")
		_, err = c.Put(t.Context(), "k", value)
		require.NoError(t, err)
		<-w
		cluster.Member(0).Stop()
		_, err = c.Get(clienttest.Within(t), "k")
		require.Error(t, err)
		cluster.Member(0).Start()
		time.Sleep(time.Minute)
		clienttest.Get(t, c, "k")
		time.Sleep(10 * time.Second)

		synctest.Wait() // the handler does not write meanwhile
		text := out.String()
		require.NotContains(t, text, "hunter2")
		lines := map[string]int{}
		for line := range strings.Lines(text) {
			var entry struct{ Level, Msg string }
			require.NoError(t, json.Unmarshal([]byte(line), &entry), line)
			lines[entry.Level+" "+entry.Msg]++
		}
		require.Equal(t, 1, lines["WARN no endpoint can serve"], "%v", lines)
		require.Equal(t, 1, lines["INFO the cluster serves again"], "%v", lines)
		require.Positive(t, lines["DEBUG trying again"], "%v", lines)

		report, err := json.Marshal(c.Introspect(introspect.Options{Keys: true}))
		require.NoError(t, err)
		require.NotContains(t, string(report), "hunter2")
	})
}

// A member that is refused at first comes back with a certificate that is not trusted: the log has that reason too.
func TestTheLogHasALaterReasonOfAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := clienttest.Start(t, 3)
		core, logs := observer.New(zap.WarnLevel)
		c := clienttest.Connect(t, cluster, Config{Logger: zap.New(core)})
		reasons := func() (all []any) {
			for _, line := range logs.All() {
				all = append(all, line.Message, line.ContextMap()["last-error"])
			}
			return all
		}
		for range 10 {
			clienttest.Get(t, c, "k")
		}
		synctest.Wait() // no connection is being made
		cluster.Member(0).Stop()
		time.Sleep(5 * time.Minute)
		lines := reasons()
		require.Len(t, lines, 2, "%v", lines)
		require.Equal(t, "an endpoint is out", lines[0])
		require.Contains(t, lines[1], "connection refused")

		cluster.OnDial(func(_ context.Context, m *fakeetcd.Member) error {
			if m == cluster.Member(0) {
				return errors.New("x509: certificate signed by unknown authority")
			}
			return nil
		})
		time.Sleep(30 * time.Minute)
		lines = reasons()
		require.Len(t, lines, 4, "%v", lines)
		require.Equal(t, "an endpoint is out for another reason", lines[2])
		require.Contains(t, lines[3], "x509")
	})
}
