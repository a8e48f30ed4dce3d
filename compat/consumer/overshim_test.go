//go:build overshim

package consumer_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"

	quorate "github.com/quorate/quorate/clientv3"
	quorateconcurrency "github.com/quorate/quorate/clientv3/concurrency"
)

// What each side declares is assigned to the other: this compiles only where both names are one type.
var (
	_ *quorate.Client                                                                          = (*clientv3.Client)(nil)
	_ func(clientv3.Config) (*quorate.Client, error)                                           = clientv3.New
	_ func(*quorate.Client, ...concurrency.SessionOption) (*quorateconcurrency.Session, error) = concurrency.NewSession
	_ map[quorate.LeaseID]quorate.KV                                                           = map[clientv3.LeaseID]clientv3.KV{}
)

func TestErrorsAreOurs(t *testing.T) {
	requireSame(t, quorate.ErrNoAvailableEndpoints, clientv3.ErrNoAvailableEndpoints)
	requireSame(t, quorateconcurrency.ErrLocked, concurrency.ErrLocked)
}

// TestAssignedVariableIsOne assigns under both names, and reads under the other.
func TestAssignedVariableIsOne(t *testing.T) {
	require.True(t, &clientv3.LeaseResponseChSize == &quorate.LeaseResponseChSize, "two variables")
	defer func(size int) { quorate.LeaseResponseChSize = size }(quorate.LeaseResponseChSize)
	clientv3.LeaseResponseChSize = 99
	require.Equal(t, 99, quorate.LeaseResponseChSize)
	quorate.LeaseResponseChSize = 77
	require.Equal(t, 77, clientv3.LeaseResponseChSize)
}
