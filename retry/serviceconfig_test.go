package retry

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
)

func TestParseServiceConfig(t *testing.T) {
	c, err := ParseServiceConfig(`{
		"loadBalancingConfig": [{"round_robin": {}}],
		"healthCheckConfig": {"serviceName": ""},
		"methodConfig": [
			{"name": [{}], "retryPolicy": {"maxAttempts": 2}},
			{"name": [{"service": "etcdserverpb.KV"}, {"service": "etcdserverpb.Lease"}], "waitForReady": true, "timeout": "3s",
			 "retryPolicy": {"maxAttempts": 9, "initialBackoff": "0.025s", "maxBackoff": "3s", "backoffMultiplier": 1.6,
			                 "retryableStatusCodes": ["UNAVAILABLE", "CANCELLED", "canceled", 10, "ABORTED"]}},
			{"name": [{"service": "etcdserverpb.KV", "method": "Txn"}]}
		],
		"retryThrottling": {"maxTokens": 1000, "tokenRatio": 0.5}
	}`)
	require.NoError(t, err)

	builtIn := DefaultConfig().Default
	fallback := builtIn
	fallback.MaxAttempts = 2
	kv := Policy{
		MaxAttempts: 9, InitialBackoff: 25 * time.Millisecond, MaxBackoff: 3 * time.Second, BackoffMultiplier: 1.6,
		RetryableStatusCodes: []codes.Code{codes.Unavailable, codes.Canceled, codes.Canceled, codes.Aborted, codes.Aborted},
	}
	for method, want := range map[string]Policy{
		"/etcdserverpb.KV/Range":           kv,
		"/etcdserverpb.Lease/LeaseGrant":   kv,
		"/etcdserverpb.KV/Txn":             builtIn,
		"/etcdserverpb.Cluster/MemberList": fallback,
		"/etcdserverpb.KVS/Range":          fallback,
		"":                                 fallback,
		"Range":                            fallback,
	} {
		assert.Empty(t, cmp.Diff(want, c.PolicyFor(method)), method)
	}
	assert.Equal(t, Throttling{MaxTokens: 1000, TokenRatio: 0.5}, c.Throttling)
}

func TestParseServiceConfigDefaults(t *testing.T) {
	for _, js := range []string{
		`{}`, `null`, `{"methodConfig": [], "retryThrottling": {}}`, `{"methodConfig": [{"name": [{}], "retryPolicy": {}}]}`,
		`{"methodConfig": [{"retryPolicy": {"maxAttempts": 7}}]}`,
	} {
		c, err := ParseServiceConfig(js)
		require.NoError(t, err, js)
		assert.Empty(t, cmp.Diff(DefaultConfig().Default, c.PolicyFor("/etcdserverpb.KV/Range")), js)
		assert.Equal(t, DefaultConfig().Throttling, c.Throttling, js)
	}
}

func TestDefaultConfig(t *testing.T) {
	want := Policy{
		InitialBackoff: 10 * time.Millisecond, MaxBackoff: time.Second, BackoffMultiplier: 2,
		RetryableStatusCodes: []codes.Code{codes.Unavailable, codes.Canceled, codes.DeadlineExceeded},
	}
	assert.Empty(t, cmp.Diff(want, DefaultConfig().PolicyFor("/any.Service/Method")))
	assert.Equal(t, Throttling{MaxTokens: 10, TokenRatio: 0.1}, DefaultConfig().Throttling)

	assert.Equal(t, Throttling{MaxTokens: 100, TokenRatio: 0.05}, DefaultConfig().HedgingThrottling)
	assert.True(t, DefaultConfig().HedgingFor("/any.Service/Method").Enabled())

	var none *Config
	assert.Empty(t, cmp.Diff(want, none.PolicyFor("/any.Service/Method")))
	assert.True(t, none.HedgingFor("/any.Service/Method").Enabled())
	literal := &Config{Default: Policy{MaxAttempts: 3}}
	assert.Equal(t, 3, literal.PolicyFor("/any.Service/Method").MaxAttempts)
}

func TestParseServiceConfigErrors(t *testing.T) {
	policy := func(fields string) string {
		return fmt.Sprintf(`{"methodConfig": [{"name": [{}]}, {"name": [{"service": "s"}], "retryPolicy": {%s}}]}`, fields)
	}
	names := func(names string) string { return fmt.Sprintf(`{"methodConfig": [{"name": [%s]}]}`, names) }
	throttling := func(fields string) string { return fmt.Sprintf(`{"retryThrottling": {%s}}`, fields) }
	hedging := func(fields string) string {
		return fmt.Sprintf(`{"methodConfig": [{"name": [{}], "hedgingPolicy": {%s}}]}`, fields)
	}
	const at, at2 = "methodConfig[1].retryPolicy.", "methodConfig[0].hedgingPolicy."
	for _, tc := range []struct {
		js   string
		want []string // parts of the error: the field, what is allowed
	}{
		{``, []string{"service config", "unexpected end"}},
		{`{"methodConfig": [}`, []string{"service config", "invalid character"}},
		{`[]`, []string{"service config", "array"}},
		{`{"methodConfig": {}}`, []string{"methodConfig", "object"}},
		{policy(`"maxAttempts": 1`), []string{at + "maxAttempts: 1", "2 or more", "left out"}},
		{policy(`"maxAttempts": 2.5`), []string{"maxAttempts", "number 2.5"}},
		{policy(`"initialBackoff": "0s"`), []string{at + `initialBackoff: "0s"`, "positive number of seconds"}},
		{policy(`"initialBackoff": "-1s"`), []string{at + `initialBackoff: "-1s"`, "positive"}},
		{policy(`"initialBackoff": "25ms"`), []string{at + "initialBackoff", `"0.025s"`}},
		{policy(`"maxBackoff": "0.0000000001s"`), []string{at + "maxBackoff", "nine decimals"}},
		{policy(`"maxBackoff": "99999999999s"`), []string{at + "maxBackoff"}},
		{policy(`"backoffMultiplier": 0`), []string{at + "backoffMultiplier: 0", "greater than 0"}},
		{policy(`"retryableStatusCodes": []`), []string{at + "retryableStatusCodes", "at least one"}},
		{policy(`"retryableStatusCodes": ["UNAVAILABLE", "GONE"]`), []string{at + "retryableStatusCodes[1]", `"GONE"`, "1 to 16"}},
		{policy(`"retryableStatusCodes": ["OK"]`), []string{at + "retryableStatusCodes[0]", "other than OK"}},
		{policy(`"retryableStatusCodes": [0]`), []string{at + "retryableStatusCodes[0]: 0"}},
		{policy(`"retryableStatusCodes": [-1]`), []string{at + "retryableStatusCodes[0]: -1"}},
		{policy(`"retryableStatusCodes": [[14]]`), []string{at + "retryableStatusCodes[0]: [14]"}},
		{names(`{"method": "Range"}`), []string{"methodConfig[0].name[0]", `"Range"`, "no service"}},
		{names(`{"service": "s"}, {"service": "s"}`), []string{"methodConfig[0].name[1]", `"s"`, "methodConfig[0].name[0]", "once"}},
		{names(`{}, {"service": "s"}, {}`), []string{"methodConfig[0].name[2]", "methodConfig[0].name[0]"}},
		{names(`{"service": "s", "method": "m"}, {"service": "s", "method": "m"}`), []string{"name[1]", `"m"`}},
		{hedging(`"maxAttempts": 0`), []string{at2 + "maxAttempts: 0", "1 to switch hedging off"}},
		{hedging(`"hedgingDelay": "-1s"`), []string{at2 + `hedgingDelay: "-1s"`, "positive number of seconds"}},
		{hedging(`"hedgingDelay": 1`), []string{"hedgingDelay", "number"}},
		{hedging(`"nonFatalStatusCodes": ["GONE"]`), []string{at2 + "nonFatalStatusCodes[0]", `"GONE"`}},
		{`{"hedgingThrottling": {"tokenRatio": -1}}`, []string{"hedgingThrottling.tokenRatio: -1", "greater than 0"}},
		{throttling(`"maxTokens": 1000.5`), []string{"retryThrottling.maxTokens: 1000.5", "at most 1000"}},
		{throttling(`"tokenRatio": 0`), []string{"retryThrottling.tokenRatio: 0", "greater than 0"}},
	} {
		t.Run(tc.js, func(t *testing.T) {
			c, err := ParseServiceConfig(tc.js)
			require.Error(t, err)
			assert.Nil(t, c)
			for _, part := range tc.want {
				assert.ErrorContains(t, err, part)
			}
		})
	}
}

func FuzzParseServiceConfig(f *testing.F) {
	f.Add(`{"methodConfig": [{"name": [{"service": "s", "method": "m"}], "retryPolicy": {"maxAttempts": 2,
		"initialBackoff": "0.1s", "maxBackoff": "1s", "backoffMultiplier": 2, "retryableStatusCodes": ["UNAVAILABLE", 1]}}],
		"retryThrottling": {"maxTokens": 10, "tokenRatio": 0.1}}`, "/s/m")
	f.Add(`{"methodConfig": [{"name": [{}], "retryPolicy": null}]}`, "m")
	f.Fuzz(func(t *testing.T, js, method string) {
		c, err := ParseServiceConfig(js)
		if (c == nil) == (err == nil) {
			t.Fatalf("config %v, error %v", c, err)
		}
		if err != nil {
			return
		}
		p := c.PolicyFor(method)
		if p.MaxAttempts == 1 || p.MaxAttempts < 0 || len(p.RetryableStatusCodes) == 0 || p.Retryable(codes.OK) {
			t.Fatalf("accepted the policy %+v", p)
		}
		if d := p.Delay(100); d < 0 || d > p.MaxBackoff {
			t.Fatalf("delay %v of %+v", d, p)
		}
		NewBudget(c.Throttling).Take()
	})
}

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
