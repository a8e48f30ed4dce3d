package main

import (
	"bytes"
	"context"
	"encoding/xml"
	"errors"
	"io"
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
		m := &meter{pending: make(map[int]*pendingWrite)}
		m.written(1, 2)
		time.Sleep(time.Second)
		m.delivered(1)
		time.Sleep(time.Second)
		m.delivered(1)
		assert.InDelta(t, 2, m.read().Event, 0, "the later of two watches")
		assert.Empty(t, m.pending)

		m.reset("none")
		m.delivered(2) // before the write was answered
		m.delivered(2)
		time.Sleep(time.Second)
		m.written(2, 2)
		assert.Zero(t, m.read().Event)
		assert.Empty(t, m.pending)

		m.written(3, 1)
		time.Sleep(3 * time.Second)
		assert.InDelta(t, 3, m.read().Event, 0, "what never came is as late as it is")
		m.delivered(4)
		m.forget(4)
		m.forget(3)
		assert.Empty(t, m.pending)

		m.reset("none")
		m.ready(false)
		time.Sleep(time.Second)
		m.ready(true)
		m.ready(false)
		time.Sleep(time.Second)
		assert.InDelta(t, 2, m.read().NotReady, 0)
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

// The picture on the first page is that of the figures beside it.
func TestPictureIsOfTheRecord(t *testing.T) {
	r, err := readRecord("../../../docs/kube-faults.json")
	require.NoError(t, err)
	picture, err := os.ReadFile("../../../docs/kube-faults.svg")
	require.NoError(t, err)
	assert.Equal(t, draw(r), string(picture), "run: go run ./lab/kube/faults -from docs/kube-faults.json -picture docs/kube-faults.svg")
}

func TestRecordAndPicture(t *testing.T) {
	none, far := row{Fault: "none"}, row{Fault: "slow & far"}
	worst := row{Fault: "stop", Event: 1.5, List: 10, Writes: 300, FailedWrites: 2, LeasesLost: 3}
	want := record{HoldSeconds: 15, Results: []result{
		{Client: official, Rows: []row{none, worst, far}, Starts: []float64{0}},
		{Client: quorate, Rows: []row{none, {Fault: "stop", Write: 0.01}, far}},
	}}
	dir := t.TempDir()
	files := settings{record: filepath.Join(dir, "record.json"), picture: filepath.Join(dir, "picture.svg")}
	require.NoError(t, files.save(want))

	var out bytes.Buffer
	again := filepath.Join(dir, "again.svg")
	require.NoError(t, run(t.Context(), []string{"-from", files.record, "-picture", again}, &out, new(bytes.Buffer)))
	assert.Regexp(t, `\| stop +\| official +\| 1.50 s +\| 10.00 s `, out.String())
	assert.Contains(t, out.String(), "official: ready in 0 of 1 tries")

	first, err := os.ReadFile(files.picture)
	require.NoError(t, err)
	second, err := os.ReadFile(again)
	require.NoError(t, err)
	assert.Equal(t, string(first), string(second), "a record holds all that the picture shows")
	for _, text := range []string{"for 15 s", "a follower is frozen", "slow &amp; far", ">10 s<", ">1.5 s<", ">0.01 s<", ">3 of 8<"} {
		assert.Contains(t, string(first), text)
	}
	assert.NotContains(t, string(first), ">none<")
	for dec := xml.NewDecoder(bytes.NewReader(first)); ; {
		if _, err := dec.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
}

func TestBadRecord(t *testing.T) {
	for want, text := range map[string]string{
		"invalid character":            "no JSON",
		"holds no results":             "{}",
		"did not meet the same faults": `{"results":[{"faults":[{}]},{"faults":[]}]}`,
		"no such file or directory":    "",
	} {
		path := filepath.Join(t.TempDir(), "record.json")
		if text != "" {
			require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		}
		require.ErrorContains(t, run(t.Context(), []string{"-from", path}, new(bytes.Buffer), new(bytes.Buffer)), want)
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
	ctx, cancel := context.WithTimeout(t.Context(), 9*time.Minute)
	defer cancel()
	var out, log bytes.Buffer
	require.NoError(t, run(ctx, []string{"-official", path, "-faults", "kill", "-hold", "5s", "-settle", "3s", "-idle", "1s"}, &out, &log), "%v", &log)
	t.Logf("\n%s", &out)
	assert.Regexp(t, `\| kill +\| official +\|`, out.String())
}
