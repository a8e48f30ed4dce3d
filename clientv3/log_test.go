package clientv3

import (
	"bytes"
	"log"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap/zapcore"
)

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
