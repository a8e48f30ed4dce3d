// Package leasing_test checks that the leasing cache is linearizable through lost sessions, on a real server.
package leasing_test

import (
	"testing"

	"github.com/quorate/quorate/lab"
	"github.com/quorate/quorate/lab/internal/labtest"
)

// endpoint is that of the only member of the cluster.
var endpoint string

func TestMain(m *testing.M) {
	labtest.Main(m, func(c *lab.Cluster) { endpoint = c.Members()[0].DirectEndpoint() })
}
