package clientv3_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	. "github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/internal/clienttest"
	"github.com/quorate/quorate/clientv3/mock/fakeetcd"
)

// advertise makes the cluster advertise url.
func advertise(cluster *fakeetcd.Cluster, url string) {
	cluster.On("MemberList", func(call *fakeetcd.Call) {
		call.Answer(&pb.MemberListResponse{
			Header:  &pb.ResponseHeader{ClusterId: fakeetcd.ClusterID},
			Members: []*pb.Member{{ID: 1, Name: "m", ClientURLs: []string{url}}},
		}, nil)
	})
}

// Canceled probes are no evidence, whichever of them were answered.
func TestSyncTimesOut(t *testing.T) {
	clienttest.InBubble(t, 2, func(t *testing.T, cluster *fakeetcd.Cluster, c *Client) {
		good, hole := cluster.Endpoints()[0], cluster.Endpoints()[1]
		c.SetEndpoints(good)
		cluster.OnDial(func(ctx context.Context, m *fakeetcd.Member) error {
			if m == cluster.Member(0) {
				return nil
			}
			<-ctx.Done()
			return ctx.Err()
		})
		advertise(cluster, hole)

		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		assert.Equal(t, context.DeadlineExceeded, c.Sync(ctx))
		assert.Equal(t, []string{good}, c.Endpoints())

		require.NoError(t, c.Sync(t.Context()))
		assert.Equal(t, []string{good}, c.Endpoints())
	})
}

func TestPasswordsOfURLsAreNotLogged(t *testing.T) {
	cluster := clienttest.Start(t, 1)
	core, logs := observer.New(zap.DebugLevel)
	withPassword := strings.Replace(cluster.Endpoints()[0], "http://", "http://me:hunter2@", 1)
	c, err := New(Config{Endpoints: []string{withPassword}, DialOptions: cluster.DialOptions(), Logger: zap.New(core)})
	require.NoError(t, err)
	defer c.Close()
	advertise(cluster, "http://me:hunter2@nowhere:2379")
	require.NoError(t, c.Sync(t.Context()))
	c.SetEndpoints("ftp://me:hunter2@nowhere:2379", withPassword)
	_, err = c.Status(t.Context(), "ftp://me:hunter2@nowhere:2379")
	require.Error(t, err)

	text := fmt.Sprint(err)
	require.NotEmpty(t, logs.All())
	for _, e := range logs.All() {
		text += fmt.Sprint(e.Message, e.ContextMap())
	}
	assert.NotContains(t, text, "hunter2")
}
