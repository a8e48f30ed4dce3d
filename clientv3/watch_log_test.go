package clientv3_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	. "github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/internal/clienttest"
	"github.com/quorate/quorate/clientv3/mock/fakeetcd"
)

// A proxy passes calls and refuses every stream: the watch is silent, but the log is not, once.
func TestWatchThatCannotBeOpenedIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := clienttest.Start(t, 1)
		core, logs := observer.New(zap.InfoLevel)
		c := clienttest.Connect(t, cluster, Config{Logger: zap.New(core)})
		clienttest.Get(t, c, "k")
		refuse := cluster.On("Watch", func(call *fakeetcd.Call) {
			call.Answer(nil, status.Error(codes.Unknown, "unexpected HTTP status code received from server: 408 (Request Timeout)"))
		})
		watches := make(chan WatchChan, 1)
		go func() { watches <- c.Watch(t.Context(), "k") }() // returns when the watch is created
		time.Sleep(5 * time.Minute)
		lines := logs.FilterMessage("stream keeps failing; trying again").TakeAll()
		require.Len(t, lines, 1)
		assert.Equal(t, cluster.Endpoints()[0], lines[0].ContextMap()["endpoint"])
		assert.Contains(t, lines[0].ContextMap()["error"], "408")
		refuse.Remove()
		w := <-watches
		time.Sleep(time.Minute)
		clienttest.Put(t, cluster, "k", "v")
		require.Len(t, (<-w).Events, 1)
	})
}
