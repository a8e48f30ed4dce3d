package main

import (
	"encoding/json"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/lab"
)

// TestServe runs the clients of a process in this one.
func TestServe(t *testing.T) {
	cluster, err := lab.Start(t.Context(), lab.Config{Members: 1})
	require.NoError(t, err)
	defer func() { require.NoError(t, cluster.Close()) }()
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			in, toChild := io.Pipe()
			fromChild, out := io.Pipe()
			served := make(chan error, 1)
			go func() { served <- serve(in, out) }()
			encoder, decoder := json.NewEncoder(toChild), json.NewDecoder(fromChild)
			ask := func(what any) (s state) {
				require.NoError(t, encoder.Encode(what))
				require.NoError(t, decoder.Decode(&s))
				require.Empty(t, s.Error)
				return s
			}
			s := ask(job{Kind: kind, Endpoints: cluster.Endpoints(), Clients: 2, TTL: 30 * time.Second, Interval: 50 * time.Millisecond})
			assert.Zero(t, s.Started, "no gets are wanted yet")
			require.Eventually(t, func() bool {
				return len(ask(order{Deadline: 10 * time.Second}).FirstAnswers) == 2
			}, 30*time.Second, 50*time.Millisecond)
			s = ask(order{Mark: true, Heap: true})
			assert.Empty(t, s.FirstAnswers)
			assert.Positive(t, s.Answered)
			assert.Positive(t, s.CPU)
			assert.Positive(t, s.Goroutines)
			assert.Zero(t, s.LeasesLost+s.WatchesLost)
			require.NoError(t, toChild.Close())
			require.NoError(t, <-served)
		})
	}
}

func TestServeReportsWhyItCannotStart(t *testing.T) {
	in, toChild := io.Pipe()
	fromChild, out := io.Pipe()
	served := make(chan error, 1)
	go func() { served <- serve(in, out) }()
	require.NoError(t, json.NewEncoder(toChild).Encode(job{Kind: "nosuch"}))
	var s state
	require.NoError(t, json.NewDecoder(fromChild).Decode(&s))
	assert.Equal(t, `unknown client "nosuch"`, s.Error)
	require.NoError(t, <-served)
}

func TestProcessThatCannotStart(t *testing.T) {
	_, err := startProcess(t.Context(), job{Kind: "nosuch"})
	require.ErrorContains(t, err, `unknown client "nosuch"`)
}
