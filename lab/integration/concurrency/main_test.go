// Package concurrency_test runs locks, elections and transactions of Quorate and of the
// official client on one server.
package concurrency_test

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/quorate/quorate/lab"
	"github.com/quorate/quorate/lab/internal/labtest"
)

// endpoints are those of a cluster of one member that all tests share. Each has its own
// prefix.
var endpoints []string

func TestMain(m *testing.M) {
	labtest.Main(m, func(c *lab.Cluster) { endpoints = c.Endpoints() })
}

var prefixes atomic.Int64

// newPrefix returns a prefix that no other test uses, nor another run of this one.
func newPrefix(t *testing.T) string {
	t.Helper()
	return fmt.Sprint(t.Name(), "#", prefixes.Add(1))
}
