package yaml_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/yaml"
	"github.com/quorate/quorate/internal/grpctest"
	"github.com/quorate/quorate/internal/testpki"
)

// whoami answers each read with one key: the name in the certificate of the client.
type whoami struct{ pb.UnimplementedKVServer }

func (whoami) Range(ctx context.Context, _ *pb.RangeRequest) (*pb.RangeResponse, error) {
	p, _ := peer.FromContext(ctx)
	name := p.AuthInfo.(credentials.TLSInfo).State.PeerCertificates[0].Subject.CommonName
	return &pb.RangeResponse{Kvs: []*mvccpb.KeyValue{{Key: []byte(name)}}}, nil
}

// kept is a listener that a server does not close, so that its port stays the test's while there is no server.
type kept struct{ *net.TCPListener }

// Close ends what Accept waits for.
func (k kept) Close() error { return k.SetDeadline(time.Now()) }

// serve starts a server that trusts an authority, and has its own certificate of it.
func serve(t *testing.T, listener kept, ca *authority) *grpc.Server {
	t.Helper()
	require.NoError(t, listener.SetDeadline(time.Time{}))
	cfg := ca.Server(t)
	cfg.ClientCAs, cfg.ClientAuth = ca.Pool(), tls.RequireAndVerifyClientCert
	return grpctest.ServeOn(t, listener, func(s grpc.ServiceRegistrar) { pb.RegisterKVServer(s, whoami{}) }, grpc.Creds(credentials.NewTLS(cfg)))
}

// TestRotation replaces the authority and every certificate while a client runs. With the official
// function's configuration it never connects again.
func TestRotation(t *testing.T) {
	dir := t.TempDir()
	first, second := newAuthority(t, 1), newAuthority(t, 2)
	first.write(t, dir, "first client")
	raw, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = raw.Close() }) // after the servers have ended
	listener := kept{raw.(*net.TCPListener)}
	path := filepath.Join(dir, "etcd.yaml")
	require.NoError(t, os.WriteFile(path, []byte(
		"endpoints: ['"+listener.Addr().String()+"']\n"+
			"cert-file: "+filepath.Join(dir, "client.crt")+"\n"+
			"key-file: "+filepath.Join(dir, "client.key")+"\n"+
			"trusted-ca-file: "+filepath.Join(dir, "ca.crt")+"\n"), 0o600))
	cfg, err := yaml.NewConfig(path)
	require.NoError(t, err)
	cfg.Logger = zap.NewNop()
	client, err := clientv3.New(*cfg)
	require.NoError(t, err)
	defer client.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()

	server := serve(t, listener, first)
	resp, err := client.Get(ctx, "k")
	require.NoError(t, err)
	require.Equal(t, "first client", string(resp.Kvs[0].Key))
	server.Stop()

	second.write(t, dir, "second client")
	serve(t, listener, second)
	resp, err = client.Get(ctx, "k")
	require.NoError(t, err)
	require.Equal(t, "second client", string(resp.Kvs[0].Key))
}

// authority writes files.
type authority struct {
	*testpki.Authority
	modified time.Time // of the files that it writes
}

// newAuthority makes the authority of a number. What the second writes is newer than
// what the first did, even to a file system that knows only seconds.
func newAuthority(t *testing.T, number int) *authority {
	t.Helper()
	return &authority{testpki.New(t, fmt.Sprint("authority ", number)), time.Now().Add(time.Duration(number) * time.Second)}
}

// write writes the authority, and a certificate for a client with its key, to the
// directory.
func (a *authority) write(t *testing.T, dir, client string) {
	t.Helper()
	certificate, key := testpki.PairPEM(t, a.Issue(t, client))
	for name, content := range map[string][]byte{"ca.crt": a.PEM(), "client.crt": certificate, "client.key": key} {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, content, 0o600))
		require.NoError(t, os.Chtimes(path, a.modified, a.modified))
	}
}
