package naming_test

import (
	"testing"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/lab"
	"github.com/quorate/quorate/lab/internal/labtest"
)

// cluster has one member, which all tests share.
var cluster *lab.Cluster

func TestMain(m *testing.M) { labtest.Main(m, func(c *lab.Cluster) { cluster = c }) }

// connect returns a client that reaches the member through its link.
func connect(t *testing.T) *clientv3.Client {
	return labtest.Client(t, clientv3.Config{Endpoints: []string{cluster.Members()[0].Endpoint()}})
}

// connectPastTheLink returns a client for what happens behind the back of the others.
func connectPastTheLink(t *testing.T) *clientv3.Client {
	return labtest.Client(t, clientv3.Config{Endpoints: []string{cluster.Members()[0].DirectEndpoint()}})
}
