// Package leasing_test runs the leasing cache on a server: whether it is linearizable
// through lost sessions, and whether it gets on with the official client's.
package leasing_test

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/quorate/quorate/lab"
	"github.com/quorate/quorate/lab/internal/labtest"
)

// endpoint is that of the only member of the cluster that all tests share. Each has its
// own prefix.
var endpoint string

func TestMain(m *testing.M) {
	labtest.Main(m, func(c *lab.Cluster) { endpoint = c.Members()[0].DirectEndpoint() })
}

var prefixes atomic.Int64

// newPrefix returns a prefix that no other test uses, nor another run of this one.
func newPrefix(t *testing.T) string {
	t.Helper()
	return fmt.Sprint(t.Name(), "#", prefixes.Add(1), "/")
}
