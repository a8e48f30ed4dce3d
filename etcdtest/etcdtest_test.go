package etcdtest_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.uber.org/goleak"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/concurrency"
	"github.com/quorate/quorate/etcdtest"
	"github.com/quorate/quorate/internal/grpctest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bubble runs a test in virtual time.
func bubble(t *testing.T, members int, test func(t *testing.T, etcd *etcdtest.Cluster)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(t, etcdtest.Fake(t, etcdtest.Config{Members: members})) })
}

// A session whose client cannot reach the cluster ends, and so does its lease; another one takes the lock.
func TestCutEndsASession(t *testing.T) {
	bubble(t, 1, func(t *testing.T, etcd *etcdtest.Cluster) {
		session, err := concurrency.NewSession(etcd.Client, concurrency.WithTTL(10))
		require.NoError(t, err)
		require.NoError(t, concurrency.NewMutex(session, "lock").Lock(t.Context()))
		end := etcd.Cut(0)
		<-session.Done()
		end()
		next, err := concurrency.NewSession(etcd.Client, concurrency.WithTTL(10))
		require.NoError(t, err)
		defer next.Close()
		require.NoError(t, concurrency.NewMutex(next, "lock").Lock(grpctest.Within(t, time.Minute)))
	})
}

// One frozen member of three, the leader too, stops no caller; with two there is no leader.
func TestFreeze(t *testing.T) {
	bubble(t, 3, func(t *testing.T, etcd *etcdtest.Cluster) {
		served := func() {
			t.Helper()
			for range 10 {
				_, err := etcd.Client.Get(grpctest.Within(t, 2*time.Second), "k")
				require.NoError(t, err)
			}
		}
		served()
		first := etcd.Freeze(0)
		assert.Equal(t, etcd.Fake.Member(1), etcd.Fake.Leader())
		served()
		second := etcd.Freeze(1)
		assert.Nil(t, etcd.Fake.Leader())
		_, err := etcd.Client.Get(grpctest.Within(t, 10*time.Second), "k")
		require.Error(t, err)
		second()
		assert.Equal(t, etcd.Fake.Member(1), etcd.Fake.Leader())
		served()
		first()
		served()
	})
}

// The only member answers nothing while it is frozen; a call that waits is served when it goes on.
func TestFreezeTheOnlyMember(t *testing.T) {
	bubble(t, 1, func(t *testing.T, etcd *etcdtest.Cluster) {
		_, err := etcd.Client.Put(t.Context(), "k", "v")
		require.NoError(t, err)
		time.AfterFunc(5*time.Second, etcd.Freeze(0))
		begin := time.Now()
		_, err = etcd.Client.Get(grpctest.Within(t, time.Second), "k")
		require.ErrorIs(t, err, context.DeadlineExceeded)
		_, err = etcd.Client.Get(grpctest.Within(t, time.Minute), "k")
		require.NoError(t, err)
		assert.GreaterOrEqual(t, time.Since(begin), 5*time.Second)
	})
}

func TestCompact(t *testing.T) {
	etcd := etcdtest.Fake(t)
	_, err := etcd.Client.Put(t.Context(), "k", "v")
	require.NoError(t, err)
	for range 2 { // the second one has nothing to do
		etcd.Compact()
		_, err = etcd.Client.Get(t.Context(), "k", clientv3.WithRev(1))
		require.Equal(t, rpctypes.ErrCompacted, err)
	}
}

func TestUsers_authentication(t *testing.T) {
	etcd := etcdtest.Fake(t, etcdtest.Config{Users: map[string]string{"ann": "a"}})
	_, err := etcd.Client.UserList(t.Context())
	require.NoError(t, err)
	ann := etcd.Connect(t, clientv3.Config{Username: "ann", Password: "a"})
	_, err = ann.Put(t.Context(), "k", "v")
	require.NoError(t, err)
	_, err = ann.UserList(t.Context())
	require.Equal(t, rpctypes.ErrPermissionDenied, err)
	_, err = clientv3.New(etcd.ClientConfig(clientv3.Config{Username: "ann", Password: "wrong"}))
	require.Equal(t, rpctypes.ErrAuthFailed, err)

	own := etcdtest.Fake(t, etcdtest.Config{Users: map[string]string{"ann": "a"}, Client: clientv3.Config{Username: "ann", Password: "a"}})
	_, err = own.Client.UserList(t.Context())
	require.Equal(t, rpctypes.ErrPermissionDenied, err)
}

func TestBadConfig(t *testing.T) {
	for want, cfg := range map[string]etcdtest.Config{
		"fakeetcd: a cluster of -1 members cannot be started: ask for 1 to 1000": {Members: -1},
		`etcdtest: add the user "": `:                                            {Users: map[string]string{"": ""}},
		"Token configurations are mutually exclusive":                            {Client: clientv3.Config{Token: "t", Username: "u"}},
	} {
		_, err := etcdtest.New(cfg)
		require.ErrorContains(t, err, want)
	}
}
