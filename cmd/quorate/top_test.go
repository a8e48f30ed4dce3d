package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/cmd/internal/cli"
	"github.com/quorate/quorate/cmd/quorate/internal/top"
	"github.com/quorate/quorate/lab/etcdtest"
)

func TestTop(t *testing.T) {
	t.Parallel()
	cluster := etcdtest.Start(t, etcdtest.Config{}).Lab
	stdout, _ := execute(t, cli.OK, "top", "--interval", "10s", "--endpoints", cluster.Endpoints()[0])
	assert.Contains(t, stdout, "serving  leader")

	stdout, _ = execute(t, cli.OK, "top", "--json", "--interval", "10s", "--endpoints", cluster.Endpoints()[0])
	var s top.Snapshot
	require.NoError(t, json.Unmarshal([]byte(stdout), &s))
	require.Len(t, s.Members, 1)
	assert.Equal(t, "leader", s.Members[0].Role)
}

// The table says which sources do not answer.
func TestTopWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"--url http://u:p@127.0.0.1:1/":                            "error: http://xxxxx@127.0.0.1:1/: ",
		"--once --interval 10s --endpoints http://u:p@127.0.0.1:1": "http://xxxxx@127.0.0.1:1:  nothing listens",
	} {
		t.Run(args, func(t *testing.T) {
			t.Parallel()
			stdout, _ := execute(t, cli.Failure, append([]string{"top"}, strings.Fields(args)...)...)
			assert.Contains(t, stdout, want)
		})
	}
}
