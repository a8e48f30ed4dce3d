package clientv3

import (
	"bytes"
	"context"
	"fmt"
	"log"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/coreos/go-semver/semver"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/version"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/grpclog"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/observe/introspect"
)

// closedPort refuses connections: it is given to no socket that asks for any port.
const closedPort = "http://127.0.0.1:1"

func TestNewDoesNotWaitForAServer(t *testing.T) {
	c, err := New(Config{Endpoints: []string{closedPort}, Logger: zap.NewNop()})
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err = c.Get(ctx, "k")
	assert.Equal(t, context.DeadlineExceeded, err)
	require.NoError(t, c.Close())
}

func TestNewEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, cancel)
	_, err := New(Config{Endpoints: []string{closedPort}, Username: "u", Password: "p", Context: ctx, Logger: zap.NewNop()})
	assert.Equal(t, context.Canceled, err)
}

func TestClose(t *testing.T) {
	c, err := New(Config{Endpoints: []string{closedPort}, Logger: zap.NewNop()})
	require.NoError(t, err)
	inFlight := make(chan error, 1)
	go func() { _, err := c.Get(context.Background(), "k"); inFlight <- err }()
	require.Eventually(t, func() bool { return c.Introspect(introspect.Options{}).Calls.InFlight == 1 }, time.Minute, time.Millisecond)
	require.NoError(t, c.Close())
	assert.True(t, IsConnCanceled(<-inFlight))
	assert.ErrorIs(t, c.Ctx().Err(), context.Canceled)
	assert.Equal(t, context.Canceled, c.Close())

	for name, call := range map[string]func() error{
		"Status": func() error { _, err := c.Status(context.Background(), "127.0.0.1:1"); return err },
		"Stream": func() error { _, err := c.GetStream(context.Background(), "k", WithPrefix()); return err },
	} {
		t.Run(name, func(t *testing.T) {
			err := call()
			assert.True(t, IsConnCanceled(err), "got %v", err)
		})
	}
}

func TestClientWithoutConnection(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	lg := zap.NewExample()
	c := NewCtxClient(ctx, WithZapLogger(lg))
	assert.Same(t, lg, c.GetLogger())
	assert.NotNil(t, NewCtxClient(ctx, WithZapLogger(nil)).GetLogger())
	assert.Empty(t, c.Endpoints())
	c.SetEndpoints("127.0.0.1:1")
	assert.Nil(t, c.ActiveConnection())
	_, err := c.Dial("127.0.0.1:1")
	assert.Equal(t, codes.FailedPrecondition, status.Code(err))

	c.KV = NewKV(c)
	_, err = c.Get(ctx, "k")
	assert.ErrorContains(t, err, "NewCtxClient")
	c.Maintenance = NewMaintenance(c)
	_, err = c.Status(ctx, "127.0.0.1:1")
	assert.ErrorContains(t, err, "NewCtxClient")
	assert.Equal(t, context.Canceled, c.Close())
}

func TestLoggerOfAClient(t *testing.T) {
	assert.NotNil(t, NewCtxClient(t.Context()).GetLogger())
	assert.NotNil(t, NewCtxClient(t.Context()).WithLogger(nil).GetLogger())
	lg := zap.NewExample()
	assert.Same(t, lg, NewCtxClient(t.Context()).WithLogger(lg).GetLogger())

	named, err := (&Config{LogConfig: &zap.Config{Encoding: "json", Level: zap.NewAtomicLevel()}}).logger()
	require.NoError(t, err)
	assert.NotNil(t, named)
	_, err = (&Config{LogConfig: &zap.Config{}}).logger()
	assert.ErrorContains(t, err, "LogConfig")
}

func TestNewFromURLs(t *testing.T) {
	c, err := NewFromURLs([]string{"http://127.0.0.1:1", "http://127.0.0.1:2"})
	require.NoError(t, err)
	assert.Equal(t, []string{"http://127.0.0.1:1", "http://127.0.0.1:2"}, c.Endpoints())
	require.NoError(t, c.Close())
	c, err = NewFromURL("http://127.0.0.1:1")
	require.NoError(t, err)
	require.NoError(t, c.Close())
}

func TestAMemberMayBeAMinorReleaseOlder(t *testing.T) {
	v := semver.New(version.Version)
	for older, want := range map[int64]error{0: nil, 1: nil, 2: ErrOldCluster} {
		resp := &StatusResponse{Version: fmt.Sprintf("%d.%d.0", v.Major, v.Minor-older)}
		assert.Equal(t, want, checkMember(resp), resp.Version)
	}
}

func TestClientLogLevel(t *testing.T) {
	for text, want := range map[string]zapcore.Level{
		"": zapcore.InfoLevel, "true": zapcore.InfoLevel, "debug": zapcore.DebugLevel,
		"WARN": zapcore.WarnLevel, "error": zapcore.ErrorLevel, "info": zapcore.InfoLevel,
	} {
		t.Setenv(debugEnv, text)
		require.Equal(t, want, ClientLogLevel(), "%q", text)
	}
}

func TestClientLogLevelInvalid(t *testing.T) {
	var out bytes.Buffer
	before := log.Writer()
	log.SetOutput(&out)
	defer log.SetOutput(before)
	t.Setenv(debugEnv, "1")
	require.Equal(t, zapcore.InfoLevel, ClientLogLevel())
	require.Contains(t, out.String(), "Invalid value for environment variable 'ETCD_CLIENT_DEBUG'")
}

func TestDebugVariableShowsTheLogOfGRPC(t *testing.T) {
	const child, line = "QUORATE_TEST_CHILD", "a line of gRPC's"
	if os.Getenv(child) != "" {
		grpclog.Info(line)
		return
	}
	for text, want := range map[string]bool{"": false, "info": true, "warn": false} {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
		cmd.Env = append(os.Environ(), child+"=1", debugEnv+"="+text, "GRPC_GO_LOG_SEVERITY_LEVEL=")
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
		require.Equal(t, want, strings.Contains(string(out), line), "%q: %s", text, out)
	}
}

func TestDefaultLoggerIsShared(t *testing.T) {
	t.Setenv(debugEnv, "")
	info, err := defaultLogger()
	require.NoError(t, err)
	require.False(t, info.Core().Enabled(zapcore.DebugLevel))
	again, err := defaultLogger()
	require.NoError(t, err)
	require.Same(t, info, again)

	t.Setenv(debugEnv, "debug")
	debug, err := defaultLogger()
	require.NoError(t, err)
	require.True(t, debug.Core().Enabled(zapcore.DebugLevel))
}
