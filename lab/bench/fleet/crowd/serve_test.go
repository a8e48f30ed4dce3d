package crowd

import (
	"encoding/json"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/quorate/quorate/lab"
)

func TestMain(m *testing.M) {
	lab.Main()
	goleak.VerifyTestMain(m)
}

// serve runs the clients of a process in this one, and returns what asks them and what ends them.
func serve(t *testing.T) (ask func(what any) State, end func()) {
	in, toChild := io.Pipe()
	fromChild, out := io.Pipe()
	served := make(chan error, 1)
	go func() { served <- Serve(in, out) }()
	encoder, decoder := json.NewEncoder(toChild), json.NewDecoder(fromChild)
	ask = func(what any) (s State) {
		require.NoError(t, encoder.Encode(what))
		require.NoError(t, decoder.Decode(&s))
		return s
	}
	return ask, func() {
		require.NoError(t, toChild.Close())
		require.NoError(t, <-served)
	}
}

func TestServe(t *testing.T) {
	cluster, err := lab.Start(t.Context(), lab.Config{Members: 1})
	require.NoError(t, err)
	defer func() { require.NoError(t, cluster.Close()) }()
	ask, end := serve(t)
	s := ask(Job{Endpoints: cluster.Endpoints(), Clients: 2, TTL: 30 * time.Second, Interval: 50 * time.Millisecond})
	require.Empty(t, s.Error)
	assert.Zero(t, s.Started, "no gets are wanted yet")
	require.Eventually(t, func() bool {
		return len(ask(Order{Deadline: 10 * time.Second}).FirstAnswers) == 2
	}, 30*time.Second, 50*time.Millisecond)
	s = ask(Order{Mark: true, Heap: true})
	assert.Empty(t, s.FirstAnswers)
	assert.Positive(t, s.Answered)
	assert.Positive(t, s.CPU)
	assert.Positive(t, s.Goroutines)
	assert.Zero(t, s.LeasesLost+s.WatchesLost)
	end()
}

func TestServeReportsWhyItCannotStart(t *testing.T) {
	ask, end := serve(t)
	assert.Contains(t, ask(Job{Clients: 1}).Error, "no available endpoints")
	end()
}
