package balancer_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	grpcbalancer "google.golang.org/grpc/balancer"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/quorate/quorate/balancer"
)

// Policies above this one parse its config, and pass it on as JSON or parsed.
func TestConfigsSurviveJSON(t *testing.T) {
	for name, object := range map[string]string{
		"quorate_round_robin": `{"drainTimeout":"7s","healthProbe":{"serviceName":"greeter"},"outlierDetection":{"maxEjectionPercent":20}}`,
		"quorate_pinned":      `{"form":"first_of_all"}`,
		"quorate_nearest":     `{}`,
		"quorate_p2c":         `{"healthProbe":{}}`,
	} {
		t.Run(name, func(t *testing.T) {
			parser, ok := grpcbalancer.Get(name).(grpcbalancer.ConfigParser)
			require.True(t, ok)
			config, err := parser.ParseConfig(json.RawMessage(object))
			require.NoError(t, err)
			js, err := json.Marshal(config)
			require.NoError(t, err)
			assert.JSONEq(t, object, string(js))
			again, err := parser.ParseConfig(js)
			require.NoError(t, err)
			assert.Equal(t, config, again)
		})
	}
}

// controlled are credentials like those of xDS.
type controlled struct {
	credentials.TransportCredentials
}

func (controlled) UsesXDS() bool { return true }

func (c controlled) Clone() credentials.TransportCredentials { return c }

// gRPC looks for UsesXDS. Without it, the security of the control plane is ignored.
func TestCredentialsOfXDS(t *testing.T) {
	usesXDS := func(c credentials.TransportCredentials) bool {
		x, ok := c.(interface{ UsesXDS() bool })
		return ok && x.UsesXDS()
	}
	creds := balancer.Credentials(controlled{insecure.NewCredentials()})
	assert.True(t, usesXDS(creds))
	assert.True(t, usesXDS(creds.Clone()))
	assert.False(t, usesXDS(balancer.Credentials(insecure.NewCredentials())))
}
