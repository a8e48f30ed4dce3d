package retry

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
)

func TestHedgingPolicyOfAServiceConfig(t *testing.T) {
	c, err := ParseServiceConfig(`{
		"methodConfig": [
			{"name": [{}], "hedgingPolicy": {"maxAttempts": 1}},
			{"name": [{"service": "etcdserverpb.KV"}], "retryPolicy": {"maxAttempts": 3},
			 "hedgingPolicy": {"maxAttempts": 4, "hedgingDelay": "0.05s", "nonFatalStatusCodes": ["INTERNAL", 2]}},
			{"name": [{"service": "etcdserverpb.Lease"}], "hedgingPolicy": {"hedgingDelay": "0s", "nonFatalStatusCodes": []}},
			{"name": [{"service": "etcdserverpb.Cluster"}]}
		],
		"hedgingThrottling": {"maxTokens": 5}
	}`)
	require.NoError(t, err)
	kv := HedgingPolicy{MaxAttempts: 4, HedgingDelay: 50 * time.Millisecond, NonFatalStatusCodes: []codes.Code{codes.Internal, codes.Unknown}}
	for method, want := range map[string]HedgingPolicy{
		"/etcdserverpb.KV/Range":              kv,
		"/etcdserverpb.Lease/LeaseTimeToLive": {},
		"/etcdserverpb.Cluster/MemberList":    {},
		"/etcdserverpb.Auth/AuthStatus":       {MaxAttempts: 1},
		"":                                    {MaxAttempts: 1},
	} {
		assert.Empty(t, cmp.Diff(want, c.HedgingFor(method)), method)
	}
	assert.Equal(t, 3, c.PolicyFor("/etcdserverpb.KV/Range").MaxAttempts)
	assert.Equal(t, Throttling{MaxTokens: 5, TokenRatio: 0.05}, c.HedgingThrottling)

	assert.True(t, kv.Enabled())
	assert.False(t, HedgingPolicy{MaxAttempts: 1}.Enabled())
	assert.True(t, kv.NonFatal(codes.Internal))
	assert.False(t, HedgingPolicy{}.NonFatal(codes.Internal))
}

func TestHedgingByDefault(t *testing.T) {
	var none *Config
	assert.True(t, none.HedgingFor("/etcdserverpb.KV/Range").Enabled())
	assert.True(t, DefaultConfig().HedgingFor("/etcdserverpb.KV/Range").Enabled())
	assert.Equal(t, Throttling{MaxTokens: 100, TokenRatio: 0.05}, DefaultConfig().HedgingThrottling)
}
