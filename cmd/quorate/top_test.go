package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/cmd/internal/cli"
	"github.com/quorate/quorate/cmd/internal/cli/clitest"
	"github.com/quorate/quorate/cmd/quorate/internal/top"
	"github.com/quorate/quorate/lab/etcdtest"
)

func TestTop(t *testing.T) {
	cluster := etcdtest.Start(t, etcdtest.Config{}).Lab
	status, stdout, stderr := clitest.Exec(t.Context(), newRootCommand(), "top", "--interval", "10s", "--endpoints", cluster.Endpoints()[0])
	assert.Equal(t, cli.OK, status, stderr)
	assert.Contains(t, stdout, "serving  leader")

	status, stdout, stderr = clitest.Exec(t.Context(), newRootCommand(), "top", "--json", "--interval", "10s", "--endpoints", cluster.Endpoints()[0])
	assert.Equal(t, cli.OK, status, stderr)
	var s top.Snapshot
	require.NoError(t, json.Unmarshal([]byte(stdout), &s))
	require.Len(t, s.Members, 1)
	assert.Equal(t, "leader", s.Members[0].Role)
}

func TestTopRefuses(t *testing.T) {
	for args, want := range map[string]string{
		"--interval 1ms":                            "--interval must be at least 500ms",
		"--url ftp://a/":                            "--url must be like http://host:port/path",
		"--url http://u:p@127.0.0.1:1/":             "error: http://xxxxx@127.0.0.1:1/: ",
		"--once --endpoints http://u:p@127.0.0.1:1": "http://xxxxx@127.0.0.1:1:  nothing listens",
		"--endpoints a:1 --cacert nosuch.pem":       "--cacert: open nosuch.pem",
		"--url http://a/ --endpoints b:1":           "give one of them",
	} {
		t.Run(args, func(t *testing.T) {
			status, stdout, stderr := clitest.Exec(t.Context(), newRootCommand(), append([]string{"top"}, strings.Fields(args)...)...)
			assert.Equal(t, cli.Failure, status)
			assert.Contains(t, stdout+stderr, want)
		})
	}
}
