package grpcpool_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/quorate/quorate/pool/grpcpool"
)

func insecureOption() grpc.DialOption {
	return grpc.WithTransportCredentials(insecure.NewCredentials())
}

func TestConfigErrors(t *testing.T) {
	type methods = map[string]grpcpool.Class
	for _, tt := range []struct {
		config grpcpool.Config
		want   string
	}{
		{grpcpool.Config{Unary: grpcpool.Bounds{Min: -1}}, "Config.Unary.Min is -1; it must be 1 or more, or 0 for 1"},
		{grpcpool.Config{Bulk: grpcpool.Bounds{Max: -2}}, "Config.Bulk.Max is -2; it must be 1 or more, or 0 for 8"},
		{grpcpool.Config{Streams: grpcpool.Bounds{Min: 3, Max: 2}}, "Config.Streams.Max is 2, less than its Min, 3; raise Max or remove it"},
		{grpcpool.Config{StreamsPerConnection: -1}, "Config.StreamsPerConnection is -1; it must be 1 or more"},
		{grpcpool.Config{Methods: methods{"/a.B/C": 7}}, `Config.Methods["/a.B/C"] is class 7; it must be Unary, Bulk or Streams`},
		{grpcpool.Config{Methods: methods{"a.B/C": 0}}, `Config.Methods has the key "a.B/C"; it must be a full method name`},
		{grpcpool.Config{Methods: methods{"/a.B": 0}}, `Config.Methods has the key "/a.B"`},
		{grpcpool.Config{Methods: methods{"": 0}}, `Config.Methods has the key ""`},
		{grpcpool.Config{Methods: methods{"//": 0}}, `Config.Methods has the key "//"`},
	} {
		_, err := grpcpool.NewClient("passthrough:///x", tt.config, insecureOption())
		assert.ErrorContains(t, err, "grpcpool: "+tt.want)
	}
}

// NewClient returns the errors of grpc.NewClient.
func TestNewClientErrors(t *testing.T) {
	_, err := grpcpool.NewClient("passthrough:///x", grpcpool.Config{})
	assert.ErrorContains(t, err, "no transport security set")
	_, err = grpcpool.NewClient("passthrough:///x", grpcpool.Config{}, insecureOption(), grpc.WithDefaultServiceConfig("{"))
	assert.ErrorContains(t, err, "service config")
}

// Later changes of the caller's map and options have no effect.
func TestConfigIsCopied(t *testing.T) {
	s := startServer(t)
	listed := map[string]grpcpool.Class{"/grpc.testing.TestService/": grpcpool.Bulk}
	conn, client := open(t, s, grpcpool.Config{Methods: listed})
	clear(listed)
	require.NoError(t, emptyCall(t, client)())
	assert.EqualValues(t, 1, conn.Stats().Bulk.Calls)
}
