package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/quorate/quorate/lab"
	"github.com/quorate/quorate/lab/kube"
)

func TestMain(m *testing.M) {
	lab.Main()
	goleak.VerifyTestMain(m)
}

func TestMeter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &meter{pending: make(map[int]*owed)}
		m.written(1, 2)
		time.Sleep(time.Second)
		m.delivered(1)
		time.Sleep(time.Second)
		m.delivered(1)
		assert.Equal(t, 2*time.Second, m.read().Event, "the later of two watches")
		assert.Empty(t, m.pending)

		m.reset()
		m.delivered(2) // before the write was answered
		m.delivered(2)
		time.Sleep(time.Second)
		m.written(2, 2)
		assert.Zero(t, m.read().Event)
		assert.Empty(t, m.pending)

		m.written(3, 1)
		time.Sleep(3 * time.Second)
		assert.Equal(t, 3*time.Second, m.read().Event, "what never came is as late as it is")
		m.delivered(4)
		m.forget(4)
		m.forget(3)
		assert.Empty(t, m.pending)

		m.reset()
		m.ready(false)
		time.Sleep(time.Second)
		m.ready(true)
		m.ready(false)
		time.Sleep(time.Second)
		assert.Equal(t, 2*time.Second, m.read().NotReady)
	})
}

func TestBadArguments(t *testing.T) {
	for want, args := range map[string][]string{
		"make kube-faults":       nil,
		`unknown fault "flood"`:  {"-official", "x", "-faults", "flood"},
		"no-such-kube-apiserver": {"-official", "no-such-kube-apiserver"},
	} {
		require.ErrorContains(t, run(t.Context(), args, new(bytes.Buffer), new(bytes.Buffer)), want)
	}
}

// One fault under load, on the API server that is there.
func TestKill(t *testing.T) {
	path := os.Getenv(kube.BinaryEnv)
	if path == "" {
		t.Skipf("%s names no kube-apiserver: `make kube-test` builds one and runs this", kube.BinaryEnv)
	}
	path, err := filepath.Abs(path)
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	var out, log bytes.Buffer
	require.NoError(t, run(ctx, []string{"-official", path, "-faults", "kill", "-hold", "5s", "-settle", "3s", "-idle", "1s"}, &out, &log), "%v", &log)
	t.Logf("\n%s", &out)
	assert.Regexp(t, `\| kill +\| official +\|`, out.String())
}
