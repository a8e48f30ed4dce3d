package lab

import (
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/internal/grpctest"
	"github.com/quorate/quorate/internal/port"
	"github.com/quorate/quorate/lab/link"
)

// soon bounds every wait for what must happen.
const soon = 5 * time.Minute

func TestStartNeedsMain(t *testing.T) {
	mainCalled.Store(false)
	defer mainCalled.Store(true)
	_, err := Start(context.Background(), Config{Dir: t.TempDir()})
	require.ErrorContains(t, err, "call lab.Main()")
	_, err = Config{Binary: "etcd"}.complete()
	assert.NoError(t, err, "another executable needs no Main")
}

func TestEnvironment(t *testing.T) {
	got := environment([]string{
		"PATH=/bin", "ETCD_NAME=x", "ETCD_UNSUPPORTED_ARCH=riscv64", "HTTPS_PROXY=a", "https_proxy=b", "No_Proxy=*",
		"http_proxy=c", "all_proxy=d", "REQUEST_METHOD=GET", "NOTIFY_SOCKET=/x", "MY_ETCD_NAME=kept",
	}, "http://127.0.0.1:9")
	assert.Equal(t, []string{
		"PATH=/bin", "ETCD_UNSUPPORTED_ARCH=riscv64", "MY_ETCD_NAME=kept", "HTTPS_PROXY=http://127.0.0.1:9", "ETCD_UNSAFE_NO_FSYNC=true",
	}, got)
}

// A member ends with its parent even where the kernel does not see to it.
func TestMemberEndsWithItsParent(t *testing.T) {
	program := findExecutable(Config{})
	read, write, err := os.Pipe()
	require.NoError(t, err)
	defer func() { _ = read.Close() }()
	client, err := port.Reserve()
	require.NoError(t, err)
	defer func() { require.NoError(t, client.Release()) }()
	url := "http://" + client.Address()
	cmd := exec.CommandContext(grpctest.Within(t, 2*soon), program.path, "--data-dir="+t.TempDir(), "--log-level=error",
		"--listen-client-urls="+url, "--advertise-client-urls="+url, "--listen-peer-urls=http://127.0.0.1:0")
	cmd.Args[0] = program.argv0
	cmd.ExtraFiles = []*os.File{read}
	cmd.Env = environment(os.Environ(), "")
	require.NoError(t, cmd.Start())
	require.Eventually(t, func() bool {
		nc, err := net.Dial("tcp", client.Address())
		if err == nil {
			_ = nc.Close()
		}
		return err == nil
	}, soon, pollInterval)

	require.NoError(t, write.Close())
	assert.EqualError(t, cmd.Wait(), "exit status 1", "it is killed if it outlives its parent")
}

func TestPeerProxy(t *testing.T) {
	const known = "192.0.2.1:2380"
	peer, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = peer.Close() }()
	l := link.New(peer.Addr().String())
	defer func() { assert.NoError(t, l.Close()) }()
	url, closeProxy := peerProxy{known: l}.serve()
	defer func() { assert.NoError(t, closeProxy()) }()

	for _, test := range []struct {
		name, request, answer string
	}{
		{"unknown peer", "CONNECT 192.0.2.9:2380 HTTP/1.1\r\nHost: 192.0.2.9:2380\r\n\r\n", "HTTP/1.1 403 Forbidden\r\n"},
		{"not CONNECT", "GET http://" + known + "/ HTTP/1.1\r\nHost: " + known + "\r\n\r\n", "HTTP/1.1 403 Forbidden\r\n"},
		{"not HTTP", "\x16\x03\x01\r\n\r\n", "HTTP/1.1 400 Bad Request\r\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			nc := dialPeerProxy(t, url, test.request)
			answer, err := io.ReadAll(nc)
			require.NoError(t, err)
			assert.Equal(t, test.answer, string(answer[:min(len(answer), len(test.answer))]))
		})
	}
	t.Run("peer", func(t *testing.T) {
		nc := dialPeerProxy(t, url, "CONNECT "+known+" HTTP/1.1\r\nHost: "+known+"\r\n\r\n")
		far, err := peer.Accept()
		require.NoError(t, err)
		_, err = io.WriteString(far, "hello")
		require.NoError(t, err)
		require.NoError(t, far.Close())
		all, err := io.ReadAll(nc)
		require.NoError(t, err)
		assert.Equal(t, "HTTP/1.1 200 OK\r\n\r\nhello", string(all))
	})
	t.Run("close ends silent connections", func(t *testing.T) {
		silent := dialPeerProxy(t, url, http.MethodConnect)
		require.NoError(t, closeProxy())
		_, err := silent.Read(make([]byte, 1))
		assert.Error(t, err)
	})
}

func dialPeerProxy(t *testing.T, url, request string) net.Conn {
	t.Helper()
	nc, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	require.NoError(t, err)
	t.Cleanup(func() { _ = nc.Close() })
	require.NoError(t, nc.SetDeadline(time.Now().Add(soon)))
	_, err = io.WriteString(nc, request)
	require.NoError(t, err)
	return nc
}
