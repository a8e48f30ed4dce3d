package etcdserver_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"go.etcd.io/etcd/server/v3/embed"

	"github.com/quorate/quorate/keepalive"
)

// TestKeepalivePresetIsEtcds compares the preset with the defaults of the server's flags.
func TestKeepalivePresetIsEtcds(t *testing.T) {
	etcd := embed.NewConfig()
	assert.Equal(t, keepalive.Server{
		MinTime: etcd.GRPCKeepAliveMinTime,
		Time:    etcd.GRPCKeepAliveInterval,
		Timeout: etcd.GRPCKeepAliveTimeout,
	}, keepalive.Etcd().Pair().Server)
}
