package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/quorate/quorate/clientv3"
)

func requireServes(t *testing.T, cfg clientv3.Config) {
	t.Helper()
	client, err := clientv3.New(cfg)
	require.NoError(t, err)
	defer client.Close()
	_, err = client.Get(t.Context(), "k")
	require.NoError(t, err)
}

// requireEnds interrupts the program, which ends well and leaves nothing behind.
func requireEnds(t *testing.T, cmd *exec.Cmd, dir string) {
	t.Helper()
	require.NoError(t, cmd.Process.Signal(os.Interrupt))
	require.NoError(t, cmd.Wait())
	requireEmpty(t, dir)
}

func requireEmpty(t *testing.T, dir string) {
	t.Helper()
	left, err := filepath.Glob(filepath.Join(dir, "*"))
	require.NoError(t, err)
	require.Empty(t, left)
}

func TestUpForAShell(t *testing.T) {
	dir := t.TempDir()
	cmd, out := program(t, "quorate-lab", dir, "up")
	require.NoError(t, cmd.Start())
	require.True(t, out.Scan())
	printed := out.Text()
	value, err := exec.Command("sh", "-c", printed+`; printf %s "$ETCDCTL_ENDPOINTS"`).Output()
	require.NoError(t, err)
	require.Equal(t, "export ETCDCTL_ENDPOINTS='"+string(value)+"'", printed)
	requireServes(t, clientv3.Config{Endpoints: []string{string(value)}})
	requireEnds(t, cmd, dir)
}

func TestUpWithTLS(t *testing.T) {
	dir := t.TempDir()
	cmd, out := program(t, "quorate-lab", dir, "up", "--members", "3", "--tls", "--json")
	require.NoError(t, cmd.Start())
	var printed string
	for out.Scan() {
		if printed += out.Text(); out.Text() == "}" {
			break
		}
	}
	var up struct {
		Endpoints     []string
		CA, Cert, Key string
	}
	require.NoError(t, json.Unmarshal([]byte(printed), &up))
	require.Len(t, up.Endpoints, 3)
	cfg, err := clientv3.NewClientConfig(&clientv3.ConfigSpec{
		Endpoints: up.Endpoints, Secure: &clientv3.SecureConfig{Cacert: up.CA, Cert: up.Cert, Key: up.Key},
	}, zap.NewNop())
	require.NoError(t, err)
	requireServes(t, *cfg)
	requireEnds(t, cmd, dir)
}
