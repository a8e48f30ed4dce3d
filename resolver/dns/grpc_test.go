package dns

import (
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	_ "github.com/quorate/quorate/balancer/policies"
	"github.com/quorate/quorate/internal/grpctest"
)

// Calls fail with the reason, with every policy. The examples have calls that succeed.
func TestCallsFailWithTheReason(t *testing.T) {
	s := newScript()
	s.fails("failing", errServerFailure)
	s.fails("none", errNoSuchHost)
	b := newBuilder(t, Config{Resolver: s})
	for _, policy := range []string{"pick_first", "round_robin", "quorate_round_robin", "quorate_p2c"} {
		for target, want := range map[string]string{
			"dns:///failing:80":      `dns: looking up the addresses of "failing": server misbehaving`,
			"dns:///none:80":         `dns: "none" has no addresses: no such host`,
			"dns:///_a._tcp.none:80": `dns: bad target "dns:///_a._tcp.none:80": "_a._tcp.none" is the name of SRV records, which have the ports; remove ":80"`,
		} {
			t.Run(policy+" "+target, func(t *testing.T) {
				conn, err := grpc.NewClient(target, grpc.WithResolvers(b), grpc.WithNoProxy(), grpc.WithTransportCredentials(insecure.NewCredentials()),
					grpc.WithDefaultServiceConfig(`{"loadBalancingConfig":[{"`+policy+`":{}}]}`))
				require.NoError(t, err)
				defer conn.Close()
				_, err = grpctest.Ask(grpctest.Within(t, testTimeout), conn)
				require.Equal(t, codes.Unavailable, status.Code(err), err)
				require.ErrorContains(t, err, want)
			})
		}
	}
}
