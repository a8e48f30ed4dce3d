package clients

import (
	"io"
	"net/rpc/jsonrpc"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/quorate/quorate/lab"
	"github.com/quorate/quorate/lab/internal/labtest"
)

func TestMain(m *testing.M) {
	lab.Main()
	goleak.VerifyTestMain(m)
}

// serve runs the clients of a process in this one, and returns what calls them and what ends them.
func serve(t *testing.T) (call func(method string, args any) (State, error), end func()) {
	in, toChild := io.Pipe()
	fromChild, out := io.Pipe()
	served := make(chan error, 1)
	go func() { served <- Serve(Stdio{in, out}) }()
	client := jsonrpc.NewClient(Stdio{fromChild, toChild})
	call = func(method string, args any) (s State, err error) {
		err = client.Call(method, args, &s)
		return s, err
	}
	return call, func() {
		require.NoError(t, client.Close())
		require.NoError(t, <-served)
	}
}

func TestServe(t *testing.T) {
	cluster := labtest.Start(t, lab.Config{Members: 1})
	call, end := serve(t)
	s, err := call("Clients.Open", Job{Endpoints: cluster.Endpoints()})
	require.NoError(t, err)
	assert.Zero(t, s.Answered+s.Failed, "no gets are wanted yet")
	require.Eventually(t, func() bool {
		s, err := call("Clients.Execute", Command{Deadline: 10 * time.Second})
		return err == nil && s.HaveAnswers == 1
	}, 30*time.Second, 50*time.Millisecond)
	s, err = call("Clients.Execute", Command{Mark: true})
	require.NoError(t, err)
	assert.Zero(t, s.HaveAnswers)
	assert.Positive(t, s.Answered)
	end()
}

func TestServeReportsWhyItCannotStart(t *testing.T) {
	call, end := serve(t)
	_, err := call("Clients.Open", Job{})
	require.ErrorContains(t, err, "no available endpoints")
	end()
}
