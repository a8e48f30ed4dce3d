package etcdtest_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.uber.org/goleak"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/internal/grpctest"
	"github.com/quorate/quorate/lab/etcdtest"
	"github.com/quorate/quorate/lab/internal/labtest"
	"github.com/quorate/quorate/retry"
)

// TestMain does not call lab.Main: package etcdtest does.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// testTimeout is far above what any call takes.
const testTimeout = time.Minute

func get(t *testing.T, client *clientv3.Client, key string) string {
	t.Helper()
	resp, err := client.Get(grpctest.Within(t, testTimeout), key)
	require.NoError(t, err)
	require.Len(t, resp.Kvs, 1)
	return string(resp.Kvs[0].Value)
}

func TestStart(t *testing.T) {
	etcd := etcdtest.Start(t, etcdtest.Config{})
	_, err := etcd.Client.Put(grpctest.Within(t, testTimeout), "k", "v")
	require.NoError(t, err)
	etcd.LoseAnswer("Put")
	_, err = etcd.Client.Put(grpctest.Within(t, testTimeout), "k", "lost")
	assert.Equal(t, retry.OutcomeUnknown, retry.OutcomeOf(err))
	assert.Equal(t, "lost", get(t, etcd.Client, "k"))
	_, err = etcd.Client.Put(grpctest.Within(t, testTimeout), "k", "next")
	require.NoError(t, err)

	for range 2 { // the second one has nothing to do
		etcd.Compact()
		_, err = etcd.Client.Get(grpctest.Within(t, testTimeout), "k", clientv3.WithRev(2))
		require.Equal(t, rpctypes.ErrCompacted, err)
	}
	end := etcd.Cut(0)
	_, err = etcd.Client.Get(grpctest.Within(t, 100*time.Millisecond), "k")
	require.Error(t, err)
	end()
	assert.Equal(t, "next", get(t, etcd.Client, "k"))
}

func TestStartThreeWithTLSAndUsers(t *testing.T) {
	etcd := etcdtest.Start(t, etcdtest.Config{Members: 3, TLS: true, Users: map[string]string{"ann": "a"}})
	ann := etcd.Connect(t, clientv3.Config{Username: "ann", Password: "a"})
	ctx := grpctest.Within(t, testTimeout)
	labtest.UntilKnown(ctx, t, func() error { _, err := ann.Put(ctx, "k", "v"); return err })
	_, err := ann.UserList(grpctest.Within(t, testTimeout))
	require.Equal(t, rpctypes.ErrPermissionDenied, err)
	_, err = etcd.Client.UserList(grpctest.Within(t, testTimeout))
	require.NoError(t, err)

	leader, err := etcd.Lab.Leader(grpctest.Within(t, testTimeout))
	require.NoError(t, err)
	end := etcd.Freeze(leader.Index())
	assert.Equal(t, "v", get(t, ann, "k")) // the others elect a leader
	end()
	etcd.Compact()
}
