package main

import (
	"archive/tar"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/cmd/internal/cli"
	"github.com/quorate/quorate/cmd/quorate/internal/doctor"
	"github.com/quorate/quorate/lab/etcdtest"
)

func TestDoctor(t *testing.T) {
	cluster := etcdtest.Start(t, etcdtest.Config{}).Lab

	t.Setenv("ETCDCTL_ENDPOINTS", cluster.Endpoints()[0])
	stdout, _ := execute(t, cli.OK, "doctor")
	assert.Contains(t, stdout, "ENDPOINT")
	assert.Contains(t, stdout, "Nothing is wrong.\n")

	stdout, stderr := execute(t, cli.Negative, "doctor", "--json", "--endpoints", "127.0.0.1:1,"+cluster.Endpoints()[0])
	assert.Regexp(t, `(^|\n)quorate: 1 finding\n$`, stderr) // after what it waits for on a busy machine
	var report doctor.Report
	require.NoError(t, json.Unmarshal([]byte(stdout), &report))
	assert.False(t, report.Healthy)
	require.Len(t, report.Endpoints, 2)
	assert.Equal(t, "tcp", report.Endpoints[0].FailedAtStep)
	assert.Equal(t, "leader", report.Endpoints[1].Role)
	require.Len(t, report.Findings, 1)
	assert.Equal(t, "refused", report.Findings[0].Code)
	assert.Contains(t, report.Findings[0].Run, "systemctl status etcd")
}

func TestDoctorWritesABundle(t *testing.T) {
	cluster := etcdtest.Start(t, etcdtest.Config{}).Lab
	bundle := filepath.Join(t.TempDir(), "ticket.tar.gz")
	execute(t, cli.OK, "doctor", "--hash", "--bundle", bundle, "--endpoints", cluster.Endpoints()[0])
	file, err := os.Open(bundle)
	require.NoError(t, err)
	defer file.Close()
	zip, err := gzip.NewReader(file)
	require.NoError(t, err)
	names := map[string]int64{}
	for archive := tar.NewReader(zip); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		names[path.Base(header.Name)] = header.Size
	}
	for _, name := range []string{"report.txt", "report.json", "metrics.txt", "version.txt", "status.json", "members.json", "hash.json"} {
		assert.Positive(t, names[name], name)
	}
}

// doctor --watch prints one object, although nothing is wrong, and ends when its output has no reader, although it has no more to write.
func TestDoctorEndsWithItsReader(t *testing.T) {
	endpoint := etcdtest.Start(t, etcdtest.Config{}).Lab.Endpoints()[0]
	read, out, err := os.Pipe()
	require.NoError(t, err)
	defer out.Close()
	require.NoError(t, read.SetReadDeadline(time.Now().Add(testTimeout)))
	root, ended := newRootCommand(), make(chan int)
	root.SetArgs([]string{"doctor", "--watch", "1s", "--endpoints", endpoint, "--json"})
	root.SetOut(out)
	go func() { ended <- cli.Execute(t.Context(), root) }()
	require.NoError(t, json.NewDecoder(read).Decode(new(doctor.Report)))
	require.NoError(t, read.Close())
	assert.Equal(t, cli.Failure, <-ended)
}

func TestDoctorCannotExamine(t *testing.T) {
	t.Setenv("ETCDCTL_DISCOVERY_SRV", "a..b")
	_, stderr := execute(t, cli.Failure, "doctor")
	assert.Contains(t, stderr, `"a..b" is not a domain name`)
	t.Setenv("ETCDCTL_COMMAND_TIMEOUT", "later")
	_, stderr = execute(t, cli.Failure, "doctor", "--endpoints", "a:1")
	assert.Contains(t, stderr, `ETCDCTL_COMMAND_TIMEOUT: "later" is no time`)
}
