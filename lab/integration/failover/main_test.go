//go:build experiment

// Package failover_test has programs use clusters of three real members while these are
// killed, frozen, cut off, slowed down and restarted, and checks what the programs saw of
// it. How long that takes is compared by "quorate-lab faults --compare".
package failover_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/lab"
	"github.com/quorate/quorate/lab/internal/labtest"
)

const (
	// patience bounds every wait for what must happen; a passing test waits a small part
	// of it.
	patience = 30 * time.Second
	// pollInterval is the pause between two looks at what is waited for.
	pollInterval = 10 * time.Millisecond
)

func TestMain(m *testing.M) {
	lab.Main()
	goleak.VerifyTestMain(m)
}

func start(t *testing.T) *lab.Cluster {
	t.Helper()
	return labtest.Start(t, lab.Config{})
}

// connect returns who observes a client of all members. The service config may be empty.
func connect(t *testing.T, c *lab.Cluster, serviceConfig string) *recorder {
	t.Helper()
	w := newRecorder(t, c)
	w.client = labtest.Client(t, clientv3.Config{Endpoints: c.Endpoints(), Observer: w, ServiceConfig: serviceConfig})
	return w
}

var within = labtest.Within

func leaderOf(t *testing.T, c *lab.Cluster) *lab.Member {
	t.Helper()
	m, err := c.Leader(within(t, patience))
	require.NoError(t, err)
	return m
}

func followerOf(t *testing.T, c *lab.Cluster) *lab.Member {
	t.Helper()
	leader := leaderOf(t, c)
	return c.Members()[(leader.Index()+1)%len(c.Members())]
}
