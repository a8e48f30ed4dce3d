// Package testserver stands in for k8s.io/apiserver/pkg/storage/etcd3/testserver when the tests of Kubernetes' storage are
// to run on another server than the etcd that is compiled into them. The command in folder conformance puts it there.
//
// The server is the executable that QUORATE_SERVER names: an etcd, or a kine if it is called so.
package testserver

import (
	"os"
	"path/filepath"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/kubernetes"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest"
	storagetesting "k8s.io/apiserver/pkg/storage/testing"

	"github.com/quorate/quorate/lab"
)

// ServerEnv is the environment variable with the path of the server.
const ServerEnv = "QUORATE_SERVER"

// NewTestConfig returns a configuration of which RunEtcd uses the directory and the interval of progress notifications.
func NewTestConfig(t testing.TB) *embed.Config {
	cfg := embed.NewConfig()
	cfg.Dir = t.TempDir()
	return cfg
}

// RunEtcd starts the server, and returns a client of it. It ends with the test.
func RunEtcd(t testing.TB, cfg *embed.Config) *kubernetes.Client {
	t.Helper()
	if cfg == nil {
		cfg = NewTestConfig(t)
	}
	server, err := lab.Start(t.Context(), config(os.Getenv(ServerEnv), cfg))
	if err != nil {
		t.Fatalf("the server that %s names: %v", ServerEnv, err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the server's log:\n%s", server.Members()[0].LogTail())
		}
		_ = server.Close()
	})
	client, err := kubernetes.New(clientv3.Config{
		Endpoints: server.DirectEndpoints(),
		Logger:    zaptest.NewLogger(t, zaptest.Level(zapcore.ErrorLevel)).Named("etcd-client"),
	})
	if err != nil {
		t.Fatal(err)
	}
	recorder := storagetesting.NewKubernetesRecorder(client.Kubernetes)
	client.KV = storagetesting.NewKVRecorder(client.KV, recorder)
	client.Kubernetes = recorder
	return client
}

// config returns a cluster of one server, with the flags that etcd 3.4 to 3.6, or kine, know.
func config(path string, cfg *embed.Config) lab.Config {
	interval := cfg.WatchProgressNotifyInterval.String()
	if filepath.Base(path) == "kine" {
		return lab.Config{Binary: path, Dir: cfg.Dir, Command: func(l lab.Launch) []string {
			return []string{
				"--endpoint=sqlite://" + filepath.Join(l.Dir, "state.db") + "?_journal=WAL&cache=shared&_busy_timeout=30000&_txlock=immediate",
				"--listen-address=tcp://" + l.Address, "--metrics-bind-address=0",
				"--watch-progress-notify-interval=" + interval, "--compact-min-retain=0",
			}
		}}
	}
	return lab.Config{Members: 1, Binary: path, Dir: cfg.Dir, Args: []string{"--experimental-watch-progress-notify-interval=" + interval}}
}
