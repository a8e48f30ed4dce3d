// Package keepalive_test holds the preset for etcd against etcd itself.
package keepalive_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/goleak"

	"github.com/quorate/quorate/keepalive"
	"github.com/quorate/quorate/lab"
)

func TestMain(m *testing.M) {
	lab.Main()
	goleak.VerifyTestMain(m)
}

// TestPresetIsEtcds compares the preset with the defaults of the server's flags.
func TestPresetIsEtcds(t *testing.T) {
	etcd := embed.NewConfig()
	assert.Equal(t, keepalive.Server{
		MinTime: etcd.GRPCKeepAliveMinTime,
		Time:    etcd.GRPCKeepAliveInterval,
		Timeout: etcd.GRPCKeepAliveTimeout,
	}, keepalive.Etcd().Pair().Server)
}
