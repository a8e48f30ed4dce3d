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
	"github.com/quorate/quorate/lab/internal/labtest"
)

func TestMain(m *testing.M) {
	lab.Main()
	goleak.VerifyTestMain(m)
}

// serve runs the clients of a process in this one. It returns their answer to a job or command, and what ends them.
func serve(t *testing.T) (call func(request any) (State, error), end func() error) {
	in, toChild := io.Pipe()
	fromChild, out := io.Pipe()
	served := make(chan error, 1)
	go func() {
		err := Serve(in, out)
		_ = out.Close()
		served <- err
	}()
	answers := json.NewDecoder(fromChild)
	call = func(request any) (s State, err error) {
		require.NoError(t, json.NewEncoder(toChild).Encode(request))
		return s, answers.Decode(&s)
	}
	return call, func() error {
		_ = toChild.Close()
		return <-served
	}
}

func TestServe(t *testing.T) {
	cluster := labtest.Start(t, lab.Config{Members: 1})
	call, end := serve(t)
	s, err := call(Job{Endpoints: cluster.Endpoints()})
	require.NoError(t, err)
	assert.Zero(t, s.Answered+s.Failed, "no gets are wanted yet")
	require.Eventually(t, func() bool {
		s, err := call(Command{Deadline: 10 * time.Second})
		return err == nil && s.HaveAnswers == 1
	}, 30*time.Second, 50*time.Millisecond)
	s, err = call(Command{Mark: true})
	require.NoError(t, err)
	assert.Zero(t, s.HaveAnswers)
	assert.Positive(t, s.Answered)
	require.NoError(t, end())
}

func TestServeReportsWhyItCannotStart(t *testing.T) {
	call, end := serve(t)
	_, err := call(Job{})
	require.ErrorIs(t, err, io.EOF)
	require.ErrorContains(t, end(), "no available endpoints")
}
