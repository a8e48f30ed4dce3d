package main

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/quorate/quorate/internal/fatal"
	"github.com/quorate/quorate/internal/grpctest"
	"github.com/quorate/quorate/lab"
	"github.com/quorate/quorate/lab/kube"
)

func TestMain(m *testing.M) {
	lab.Main()
	goleak.VerifyTestMain(m)
}

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
		assert.InDelta(t, 3, m.read().Event, 0, "what never came is as late as it is")
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

var update = flag.Bool("update", false, "draw the picture of the pages")

// The picture on the first page shows the figures of the record beside it.
func TestPictureIsOfTheRecord(t *testing.T) {
	text, err := os.ReadFile("../../../docs/kube-faults.json")
	require.NoError(t, err)
	var r record
	require.NoError(t, json.Unmarshal(text, &r))
	path := "../../../docs/kube-faults.svg"
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(draw(r)), 0o644))
	}
	picture, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, draw(r), string(picture), "run the test with -update to draw it")
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
	var out bytes.Buffer
	files.save(want, &out)
	recorded, err := os.ReadFile(files.record)
	require.NoError(t, err)
	assert.Equal(t, out.String(), string(recorded))
	var again record
	require.NoError(t, json.Unmarshal(recorded, &again))
	assert.Equal(t, want, again)

	picture, err := os.ReadFile(files.picture)
	require.NoError(t, err)
	for _, text := range []string{"for 15 s", "a follower is frozen", "slow &amp; far", ">10 s<", ">1.5 s<", ">0.01 s<", ">3 of 8<"} {
		assert.Contains(t, string(picture), text)
	}
	assert.NotContains(t, string(picture), ">none<")
	for dec := xml.NewDecoder(bytes.NewReader(picture)); ; {
		if _, err := dec.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
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
