package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/internal/fatal"
	"github.com/quorate/quorate/internal/grpctest"
	"github.com/quorate/quorate/lab/internal/labtest"
	"github.com/quorate/quorate/lab/kube"
)

func TestMain(m *testing.M) { labtest.Verify(m) }

func TestMeter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &meter{pending: make(map[string]*pendingWrite)}
		m.wrote("1", 2)
		time.Sleep(time.Second)
		m.delivered("1")
		time.Sleep(time.Second)
		m.delivered("1")
		assert.InDelta(t, 2, m.read().Event, 0, "the later of two watches")
		assert.Empty(t, m.pending)

		m.reset("none")
		m.delivered("2") // before the write was answered
		m.delivered("2")
		time.Sleep(time.Second)
		m.wrote("2", 2)
		assert.Zero(t, m.read().Event)
		assert.Empty(t, m.pending)

		m.wrote("3", 1)
		time.Sleep(3 * time.Second)
		assert.InDelta(t, 3, m.read().Event, 0, "an event that is not delivered counts as late until now")
		m.delivered("4")
		m.forget("4")
		m.forget("3")
		assert.Empty(t, m.pending)
	})
}

func TestBadArguments(t *testing.T) {
	for want, args := range map[string][]string{
		"make kube-faults":       nil,
		"no-such-kube-apiserver": {"-official", "no-such-kube-apiserver"},
	} {
		require.ErrorContains(t, fatal.Catch(func() { run(t.Context(), args, new(bytes.Buffer), new(bytes.Buffer)) }), want)
	}
}

// TestKill injects one fault under load, with the kube-apiserver that kube.BinaryEnv names.
func TestKill(t *testing.T) {
	path := os.Getenv(kube.BinaryEnv)
	if path == "" {
		t.Skipf("%s names no kube-apiserver: `make kube-test` builds one and runs this", kube.BinaryEnv)
	}
	path, err := filepath.Abs(path)
	require.NoError(t, err)
	ctx := grpctest.Within(t, 9*time.Minute)
	s := settings{
		binaries: []binary{{official, path}}, faults: []string{"kill"}, hold: 5 * time.Second, settle: 3 * time.Second, idle: time.Second, log: t.Output(),
	}
	r := s.measureAll(ctx)
	rows := r.Results[0].Rows
	require.Len(t, rows, 2)
	assert.Equal(t, "kill", rows[1].Fault)
	assert.Positive(t, rows[1].Writes)
	assert.Positive(t, r.Results[0].Cost.Connections)
}
