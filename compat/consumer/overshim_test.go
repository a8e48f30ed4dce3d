//go:build overshim

package consumer_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	_ "go.etcd.io/etcd/client/v3/clientv3util"
	"go.etcd.io/etcd/client/v3/concurrency"
	_ "go.etcd.io/etcd/client/v3/credentials"
	_ "go.etcd.io/etcd/client/v3/experimental/recipes"
	_ "go.etcd.io/etcd/client/v3/kubernetes"
	_ "go.etcd.io/etcd/client/v3/leasing"
	_ "go.etcd.io/etcd/client/v3/mirror"
	_ "go.etcd.io/etcd/client/v3/mock/mockserver"
	_ "go.etcd.io/etcd/client/v3/namespace"
	_ "go.etcd.io/etcd/client/v3/naming" // exports nothing, and can be imported
	_ "go.etcd.io/etcd/client/v3/naming/endpoints"
	_ "go.etcd.io/etcd/client/v3/naming/resolver"
	_ "go.etcd.io/etcd/client/v3/ordering"
	_ "go.etcd.io/etcd/client/v3/snapshot"
	_ "go.etcd.io/etcd/client/v3/yaml"

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
	require.Same(t, quorate.ErrNoAvailableEndpoints, clientv3.ErrNoAvailableEndpoints)
	require.Same(t, quorateconcurrency.ErrLocked, concurrency.ErrLocked)
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
