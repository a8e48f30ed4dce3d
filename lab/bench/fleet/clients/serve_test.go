package clients

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

// serve runs the client of a process in this one, and returns what asks them and what ends them.
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
	s := ask(Job{Endpoints: cluster.Endpoints()})
	require.Empty(t, s.Error)
	assert.Zero(t, s.Started, "no gets are wanted yet")
	require.Eventually(t, func() bool {
		return ask(Command{Deadline: 10 * time.Second}).HaveAnswers == 1
	}, 30*time.Second, 50*time.Millisecond)
	s = ask(Command{Mark: true})
	assert.Zero(t, s.HaveAnswers)
	assert.Positive(t, s.Answered)
	assert.Zero(t, s.LeasesLost+s.WatchesLost)
	end()
}

func TestServeReportsWhyItCannotStart(t *testing.T) {
	ask, end := serve(t)
	assert.Contains(t, ask(Job{}).Error, "no available endpoints")
	end()
}
