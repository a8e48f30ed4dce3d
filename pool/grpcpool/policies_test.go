package grpcpool_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/quorate/quorate/balancer"
	_ "github.com/quorate/quorate/balancer/policies"
	"github.com/quorate/quorate/pool/grpcpool"
)

// The pool works over channels with the quorate_ policies, which wrap the credentials too.
func TestOverQuoratePolicies(t *testing.T) {
	for _, policy := range []string{"quorate_round_robin", "quorate_p2c", "quorate_nearest"} {
		t.Run(policy, func(t *testing.T) {
			s := startServer(t, grpc.MaxConcurrentStreams(10))
			conn, client := open(t, s, grpcpool.Config{TransportCredentials: balancer.Credentials(insecure.NewCredentials())},
				grpc.WithDefaultServiceConfig(fmt.Sprintf(`{"loadBalancingConfig": [{%q: {}}]}`, policy)))
			c := s.fill(t, client, 25, 25)
			assert.Len(t, conn.Stats().Unary.Connections, 3)
			s.letGo()
			c.requireOK(t)
		})
	}
}
