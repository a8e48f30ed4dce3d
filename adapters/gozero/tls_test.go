package gozero_test

import (
	"context"
	"crypto/tls"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/zeromicro/go-zero/core/discov"
	"go.uber.org/zap"

	"github.com/quorate/quorate/adapters/gozero"
	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/internal/testpki"
)

// The file of authorities changes after the client was made, and the server's certificate is of the new one.
func TestTheCAFileIsReadAgain(t *testing.T) {
	old, renewed := testpki.New(t, "old"), testpki.New(t, "renewed")
	cert, key := testpki.PairPEM(t, old.Issue(t, "client"))
	server := renewed.Server(t)
	server.NextProtos = []string{"h2"}
	listener, err := tls.Listen("tcp", "127.0.0.1:0", server)
	require.NoError(t, err)
	defer func() { assert.NoError(t, listener.Close()) }()
	file := func(name string, content []byte) string {
		path := filepath.Join(t.TempDir(), name)
		require.NoError(t, os.WriteFile(path, content, 0o600))
		return path
	}
	conf := discov.EtcdConf{
		Hosts: []string{"https://127.0.0.1:1"}, User: "u", Pass: "p",
		CACertFile: file("ca.pem", old.PEM()), CertFile: file("cert.pem", cert), CertKeyFile: file("key.pem", key),
	}
	client, err := gozero.NewClient(conf, clientv3.Config{Logger: zap.NewNop(), DialTimeout: time.Nanosecond})
	require.ErrorIs(t, err, context.DeadlineExceeded, "user and DialTimeout are those of both configurations")
	require.Nil(t, client)
	conf.Hosts, conf.User = []string{"https://" + listener.Addr().String()}, ""
	client, err = gozero.NewClient(conf, clientv3.Config{Logger: zap.NewNop()})
	require.NoError(t, err)
	defer client.Close()
	require.NoError(t, os.WriteFile(conf.CACertFile, renewed.PEM(), 0o600))
	modified := time.Now().Add(time.Minute)
	require.NoError(t, os.Chtimes(conf.CACertFile, modified, modified))
	go func() { _, _ = client.Get(t.Context(), "k") }()
	conn, err := listener.Accept()
	require.NoError(t, err)
	defer conn.Close()
	require.NoError(t, conn.(*tls.Conn).HandshakeContext(t.Context()))
}
