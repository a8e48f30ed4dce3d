package kubernetes

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/quorate/quorate/internal/grpctest"
)

// recorded has the lines of this package in gRPC's log.
var recorded = grpctest.NewLog("kubernetes-resolver")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// since returns a function that returns the later lines about a text.
func since(text string) func() []string {
	before := len(recorded.About(text))
	return func() []string { return recorded.About(text)[before:] }
}

func TestOutageIsTwoLines(t *testing.T) {
	lines, warnings := since(`"outage"`), len(recorded.Warnings(`"outage"`))
	server := startServer(t, slice("outage", "a", 80, "10.0.0.1"))
	c := open(t, server, "kubernetes:///outage.shop")
	c.AwaitCount(t, 1)
	server.Deny()
	server.EndWatches()
	require.NoError(t, server.Wait(grpctest.Within(t, testTimeout), "watch", 6))
	server.Allow()
	update(t, server, slice("outage", "a", 80, "10.0.0.2"))
	c.AwaitAddresses(t, "10.0.0.2:80")
	require.Len(t, lines(), 2)
	assert.Contains(t, lines()[0], "no permission to watch")
	assert.Contains(t, lines()[1], "is followed again")
	assert.Len(t, recorded.Warnings(`"outage"`), warnings+1)

	server.EndWatches()
	update(t, server, slice("outage", "a", 80, "10.0.0.3"))
	c.AwaitAddresses(t, "10.0.0.3:80")
	assert.Len(t, lines(), 2, "the end of a watch is not an outage")
}

func TestWhatCallsDoNotShowIsLogged(t *testing.T) {
	empty := since(`service "logged" in namespace "shop" has no endpoints`)
	filled := since(`service "logged" in namespace "shop" has endpoints`)
	doubted := since(`the target asks for port 8080 of service "logged" in namespace "shop", and its pods have grpc (80)`)
	server := startServer(t, slice("logged", "a", 80))
	c := open(t, server, "kubernetes:///logged.shop:8080")
	c.AwaitCount(t, 0)
	c.AwaitError(t, 0, "has no endpoints")
	update(t, server, slice("logged", "a", 80, "10.0.0.1"))
	c.AwaitAddresses(t, "10.0.0.1:8080")
	update(t, server, slice("logged", "a", 80, "10.0.0.1", "10.0.0.2"))
	c.AwaitCount(t, 2)
	assert.Len(t, empty(), 1)
	assert.Len(t, filled(), 1)
	assert.Len(t, doubted(), 1)
}
