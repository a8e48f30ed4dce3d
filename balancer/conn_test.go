package balancer_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/quorate/quorate/balancer"
)

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
