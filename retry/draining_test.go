package retry

import (
	"context"
	"io"
	"net"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"golang.org/x/net/http2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
)

// requireDraining has a server refuse every stream by ending the connection, as a proxy does
// whose connections are full, and returns what a call says that met it twice.
func requireDraining(t *testing.T) (message string) {
	t.Helper()
	cc, err := grpc.NewClient("passthrough:///memory",
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(context.Context, string) (net.Conn, error) {
			client, server := net.Pipe()
			go refuseStreams(server)
			return client, nil
		}))
	require.NoError(t, err)
	defer func() { require.NoError(t, cc.Close()) }()
	_, err = pb.NewKVClient(cc).Put(t.Context(), &pb.PutRequest{Key: []byte("k")}, grpc.WaitForReady(true))
	message = status.Convert(err).Message()
	assert.Equal(t, "the connection is draining", message)
	assert.Equal(t, Refused, Classify(err, Evidence{Sent: true}))
	assert.Equal(t, OutcomeNotExecuted, OutcomeOf(err))
	return message
}

// refuseStreams serves a connection until a stream is opened on it, and says then that it
// will process none.
func refuseStreams(conn net.Conn) {
	defer func() { _ = conn.Close() }()
	if _, err := io.ReadFull(conn, make([]byte, len(http2.ClientPreface))); err != nil {
		return
	}
	framer := http2.NewFramer(conn, conn)
	if framer.WriteSettings() != nil {
		return
	}
	for {
		frame, err := framer.ReadFrame()
		if err != nil {
			return
		}
		if _, ok := frame.(*http2.HeadersFrame); ok && framer.WriteGoAway(0, http2.ErrCodeNo, nil) != nil {
			return
		}
	}
}
