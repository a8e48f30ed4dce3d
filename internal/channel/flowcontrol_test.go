package channel

import (
	"bytes"
	"net"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/net/http2"
	"google.golang.org/grpc"
)

// recordingListener keeps what its connections receive.
type recordingListener struct {
	net.Listener

	mu       sync.Mutex
	received bytes.Buffer
}

type recordingConn struct {
	net.Conn
	of *recordingListener
}

func (l *recordingListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	return recordingConn{conn, l}, err
}

func (c recordingConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	c.of.received.Write(b[:n])
	return n, err
}

// gRPC sends pings beside responses if it is to size the windows.
func TestWindowsAreFixed(t *testing.T) {
	for name, tt := range map[string]struct {
		options []grpc.DialOption
		window  uint32
	}{
		"default":    {window: 4 << 20},
		"the user's": {[]grpc.DialOption{grpc.WithInitialWindowSize(1 << 20)}, 1 << 20},
	} {
		t.Run(name, func(t *testing.T) {
			lis := &recordingListener{Listener: must(net.Listen("tcp", "127.0.0.1:0"))}
			m := startMemberAt(t, lis, "http://", nil)
			c := newTestChannel(t, Config{Endpoints: []string{m.endpoint}, DialOptions: tt.options})
			for range 20 {
				require.NoError(t, get(t, c))
			}
			lis.mu.Lock()
			defer lis.mu.Unlock()
			lis.received.Next(len(http2.ClientPreface))
			framer := http2.NewFramer(nil, &lis.received)
			var window, conn uint32
			for {
				frame, err := framer.ReadFrame()
				if err != nil {
					break // all is read
				}
				switch frame := frame.(type) {
				case *http2.WindowUpdateFrame:
					conn += frame.Increment
				case *http2.SettingsFrame:
					if size, ok := frame.Value(http2.SettingInitialWindowSize); ok {
						window = size
					}
				case *http2.PingFrame:
					assert.True(t, frame.IsAck(), "the client sent a ping")
				}
			}
			assert.Equal(t, tt.window, window)
			assert.EqualValues(t, 16<<20-65535, conn)
		})
	}
}
