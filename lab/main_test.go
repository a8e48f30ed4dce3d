package lab_test

import (
	"errors"
	"net"
	"net/url"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/raft/v3"
	"go.uber.org/goleak"
	"go.uber.org/zap"
	"google.golang.org/grpc/codes"

	"github.com/quorate/quorate/internal/grpctest"
	"github.com/quorate/quorate/lab"
)

const (
	// soon bounds every wait for what must happen; a passing test waits a small
	// part of it.
	soon = 5 * time.Minute
	// hang is how long a call is given that must not be answered.
	hang = 400 * time.Millisecond
)

func TestMain(m *testing.M) {
	lab.Main()
	if dir, ok := os.LookupEnv(crashDir); ok {
		runUntilKilled(dir)
	}
	goleak.VerifyTestMain(m)
}

func start(t *testing.T, cfg lab.Config) *lab.Cluster {
	t.Helper()
	if cfg.Dir == "" {
		cfg.Dir = t.TempDir()
	}
	c, err := lab.Start(grpctest.Within(t, 2*soon), cfg)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, c.Close()) })
	return c
}

// dial returns an official client of the given endpoints, by default all of the
// cluster's.
func dial(t *testing.T, c *lab.Cluster, endpoints ...string) *clientv3.Client {
	t.Helper()
	if len(endpoints) == 0 {
		endpoints = c.Endpoints()
	}
	client, err := clientv3.New(clientv3.Config{Endpoints: endpoints, TLS: c.ClientTLS(), Logger: zap.NewNop()})
	require.NoError(t, err)
	t.Cleanup(func() { _ = client.Close() })
	return client
}

func put(t *testing.T, client *clientv3.Client, key, value string) {
	t.Helper()
	ctx := grpctest.Within(t, soon)
	_, err := client.Put(ctx, key, value)
	for ; ctx.Err() == nil && dropped(err); time.Sleep(10 * time.Millisecond) {
		_, err = client.Put(ctx, key, value)
	}
	require.NoError(t, err)
}

// dropped reports whether an election stood in the way of a put, which a busy machine can have at any time.
func dropped(err error) bool {
	var known rpctypes.EtcdError
	return errors.As(err, &known) && known.Code() == codes.Unavailable || err != nil && strings.Contains(err.Error(), raft.ErrProposalDropped.Error())
}

func requireValue(t *testing.T, client *clientv3.Client, key, want string) {
	t.Helper()
	reply, err := client.Get(grpctest.Within(t, soon), key)
	require.NoError(t, err)
	require.Len(t, reply.Kvs, 1)
	require.Equal(t, want, string(reply.Kvs[0].Value))
}

// local reads a key from the member alone, past the links: what it has applied so
// far.
func local(t *testing.T, m *lab.Member, key string) string {
	t.Helper()
	reply, err := pb.NewKVClient(m.Conn()).Range(grpctest.Within(t, soon), &pb.RangeRequest{Key: []byte(key), Serializable: true})
	require.NoError(t, err)
	if len(reply.Kvs) == 0 {
		return ""
	}
	return string(reply.Kvs[0].Value)
}

func leader(t *testing.T, c *lab.Cluster) *lab.Member {
	t.Helper()
	m, err := c.Leader(grpctest.Within(t, soon))
	require.NoError(t, err)
	return m
}

func follower(t *testing.T, c *lab.Cluster) *lab.Member {
	t.Helper()
	return c.Others(leader(t, c))[0]
}

func hostPort(t *testing.T, endpoint string) string {
	t.Helper()
	u, err := url.Parse(endpoint)
	require.NoError(t, err)
	return u.Host
}

// refused reports whether nothing listens at an address.
func refused(address string) bool {
	nc, err := net.DialTimeout("tcp", address, soon)
	if err == nil {
		_ = nc.Close()
	}
	return errors.Is(err, syscall.ECONNREFUSED)
}

func requireNoProcess(t *testing.T, pid int) {
	t.Helper()
	require.Positive(t, pid)
	require.ErrorIs(t, syscall.Kill(pid, 0), syscall.ESRCH, "process %d exists", pid)
}

func requireEmpty(t *testing.T, dir string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, entries)
}
