package channel

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestBalancing(t *testing.T) {
	const roundRobin = `{"loadBalancingConfig":[{"quorate_round_robin":{}}]}`
	for name, tt := range map[string]struct {
		b       Balancing
		service string
		want    string
	}{
		"nothing said":         {Balancing{}, "", roundRobin},
		"no policy in config":  {Balancing{}, `{"methodConfig": []}`, roundRobin},
		"by name":              {Balancing{Strategy: "round_robin"}, "", roundRobin},
		"by its name in gRPC":  {Balancing{Strategy: "quorate_round_robin"}, "", roundRobin},
		"with a field":         {Balancing{Strategy: "round_robin", Config: json.RawMessage(`{"drainTimeout":"5s"}`)}, "", `{"loadBalancingConfig":[{"quorate_round_robin":{"drainTimeout":"5s"}}]}`},
		"gRPC's name for it":   {Balancing{}, `{"loadBalancingConfig": [{"round_robin": {}}]}`, roundRobin},
		"the first we know":    {Balancing{}, `{"loadBalancingConfig": [{"grpclb": {}}, {"quorate_round_robin": {"drainTimeout":"5s"}}]}`, `{"loadBalancingConfig":[{"quorate_round_robin":{"drainTimeout":"5s"}}]}`},
		"the name comes first": {Balancing{Strategy: "round_robin"}, `{"loadBalancingConfig": [{"grpclb": {}}]}`, roundRobin},
	} {
		got, _, err := tt.b.serviceConfig(tt.service)
		require.NoError(t, err, name)
		assert.JSONEq(t, tt.want, got, name)
	}
}

func TestBalancingErrors(t *testing.T) {
	for name, tt := range map[string]struct {
		b       Balancing
		service string
		want    []string
	}{
		"unknown":            {Balancing{Strategy: "fastest"}, "", []string{`"fastest"`, `"round_robin"`}},
		"unknown ones":       {Balancing{}, `{"loadBalancingConfig": [{"grpclb": {}}, {"pick_first": {}}]}`, []string{"loadBalancingConfig", "grpclb, pick_first", `"round_robin"`}},
		"two names":          {Balancing{}, `{"loadBalancingConfig": [{"a": {}, "b": {}}]}`, []string{"loadBalancingConfig[0]", "exactly one"}},
		"no list":            {Balancing{}, `{"loadBalancingConfig": {}}`, []string{"service config", "object"}},
		"a field's value":    {Balancing{Strategy: "round_robin", Config: json.RawMessage(`{"drainTimeout":"soon"}`)}, "", []string{"drainTimeout", "soon"}},
		"not even an object": {Balancing{Strategy: "round_robin", Config: json.RawMessage(`{`)}, "", []string{"balancing"}},
	} {
		_, err := New(Config{Endpoints: []string{"127.0.0.1:1"}, Balancing: tt.b, ServiceConfig: tt.service})
		require.Error(t, err, name)
		for _, part := range tt.want {
			assert.ErrorContains(t, err, part, name)
		}
	}
}
