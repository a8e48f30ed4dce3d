// Package testserver stands in for k8s.io/apiserver/pkg/storage/etcd3/testserver when the tests of Kubernetes' storage are
// to run on another server than the etcd that is compiled into them. The command in folder conformance puts it there.
//
// The server is the executable that QUORATE_SERVER names: an etcd, or a kine if it is called so.
package testserver

import (
	"bytes"
	"context"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/kubernetes"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest"
	storagetesting "k8s.io/apiserver/pkg/storage/testing"
)

// ServerEnv is the environment variable with the path of the server.
const ServerEnv = "QUORATE_SERVER"

// NewTestConfig returns a configuration of which RunEtcd uses the directory, the client's URL and the interval of progress
// notifications.
func NewTestConfig(t testing.TB) *embed.Config {
	cfg := embed.NewConfig()
	cfg.Dir = t.TempDir()
	cfg.ListenClientUrls = []url.URL{freeURL(t)}
	cfg.ListenPeerUrls = []url.URL{freeURL(t)}
	return cfg
}

func freeURL(t testing.TB) url.URL {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	return url.URL{Scheme: "http", Host: listener.Addr().String()}
}

// RunEtcd starts the server, and returns a client of it. It ends with the test.
func RunEtcd(t testing.TB, cfg *embed.Config) *kubernetes.Client {
	t.Helper()
	if cfg == nil {
		cfg = NewTestConfig(t)
	}
	cmd := command(os.Getenv(ServerEnv), cfg)
	var output bytes.Buffer
	cmd.Stderr = &output
	if err := cmd.Start(); err != nil {
		t.Fatalf("the server that %s names: %v", ServerEnv, err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it was killed
		if t.Failed() {
			t.Logf("the server's log:\n%s", output.Bytes())
		}
	})
	client, err := kubernetes.New(clientv3.Config{
		Endpoints: []string{cfg.ListenClientUrls[0].String()},
		Logger:    zaptest.NewLogger(t, zaptest.Level(zapcore.ErrorLevel)).Named("etcd-client"),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		_, err := client.KV.Get(ctx, "/ready")
		if err == nil {
			break
		}
		if ctx.Err() != nil {
			t.Fatalf("the server does not serve: %v", err)
		}
		time.Sleep(20 * time.Millisecond)
	}
	recorder := storagetesting.NewKubernetesRecorder(client.Kubernetes)
	client.KV = storagetesting.NewKVRecorder(client.KV, recorder)
	client.Kubernetes = recorder
	return client
}

// command returns the command line of a server with the flags that etcd 3.4 to 3.6, or kine, know.
func command(path string, cfg *embed.Config) *exec.Cmd {
	client, peer := cfg.ListenClientUrls[0], cfg.ListenPeerUrls[0].String()
	if filepath.Base(path) == "kine" {
		return exec.Command(path,
			"--endpoint=sqlite://"+filepath.Join(cfg.Dir, "state.db")+"?_journal=WAL&cache=shared&_busy_timeout=30000&_txlock=immediate",
			"--listen-address=tcp://"+client.Host, "--metrics-bind-address=0",
			"--watch-progress-notify-interval="+cfg.WatchProgressNotifyInterval.String(), "--compact-min-retain=0")
	}
	flags := []string{
		"--data-dir=" + filepath.Join(cfg.Dir, "data"), "--log-level=error", "--unsafe-no-fsync",
		"--listen-client-urls=" + client.String(), "--advertise-client-urls=" + client.String(),
		"--listen-peer-urls=" + peer, "--initial-advertise-peer-urls=" + peer, "--initial-cluster=default=" + peer,
	}
	if cfg.WatchProgressNotifyInterval > 0 {
		flags = append(flags, "--experimental-watch-progress-notify-interval="+cfg.WatchProgressNotifyInterval.String())
	}
	return exec.Command(path, flags...)
}
