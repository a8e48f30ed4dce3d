package clientv3_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	. "github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/internal/clienttest"
	"github.com/quorate/quorate/observe/introspect"
)

// lockedBuffer is written by several goroutines.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// TestSlog stops and restarts a cluster under a client that logs everything.
func TestSlog(t *testing.T) {
	const token, password, value = "hunter2-token", "hunter2-password", "hunter2-value"
	synctest.Test(t, func(t *testing.T) {
		cluster := clienttest.Start(t, 1)
		out := new(lockedBuffer)
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
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err = c.Get(ctx, "k")
		require.Error(t, err)
		cluster.Member(0).Start()
		time.Sleep(time.Minute)
		_, err = c.Get(t.Context(), "k")
		require.NoError(t, err)
		time.Sleep(10 * time.Second)

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

func TestSlogBesideLogger(t *testing.T) {
	_, err := New(Config{Endpoints: []string{"127.0.0.1:1"}, Logger: zap.NewNop(), Slog: slog.Default()})
	require.EqualError(t, err, "both Logger and Slog are set: the client logs to one of them")
}
