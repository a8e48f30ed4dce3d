package grpcpool

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"strings"
	"time"

	"google.golang.org/grpc/credentials"
)

const (
	// DefaultMaxConnections bounds the connections of a class when [Bounds].Max is 0. Eight
	// connections carry 800 concurrent calls to a server that allows 100 streams on each, the
	// lowest of the usual limits (Kestrel 100, nginx 128, Go's net/http 250; grpc-go's servers
	// have none).
	DefaultMaxConnections = 8
	// DefaultBulkBytes is the size of a request from which a unary call is bulk when
	// [Config].BulkBytes is 0: 64 KiB, the initial window of an HTTP/2 stream. A larger message
	// may wait for the server and delay the messages behind it.
	DefaultBulkBytes = 64 << 10
	// DefaultIdleTimeout is how long a connection must have been unneeded before it is closed when
	// [Config].IdleTimeout is 0. It is long compared with the cost of a connection, and short
	// compared with gRPC's own idle timeout of 30 minutes.
	DefaultIdleTimeout = 5 * time.Minute
)

// assumedStreams is the assumed stream limit of a connection until its server reports one, or if
// it cannot be learned. It is grpc-go's own assumption, and the minimum that RFC 9113, 6.5.2
// recommends.
const assumedStreams = 100

// Config is the configuration of a [ClientConn]. The zero value is suitable, except that
// TransportCredentials should be set.
type Config struct {
	// TransportCredentials secures the connections like grpc.WithTransportCredentials, which must
	// not be used in addition. With this field the pool learns the stream limit of each connection
	// from the server, and opens as many connections as are useful. With credentials among the
	// dial options it assumes 100, and calls beyond wait while another connection is being made.
	// Learning the limit costs no allocation and no measurable time, but a plaintext connection
	// keeps gRPC's read buffer while idle, 32 KB by default.
	TransportCredentials credentials.TransportCredentials

	// Unary, Bulk and Streams bound the number of connections of each class.
	Unary, Bulk, Streams Bounds

	// Methods maps full method names, "/package.Service/Method", or services, "/package.Service/",
	// to classes. The exact name takes precedence. Default: streaming methods are of class
	// Streams, others of class Unary, or Bulk if the request is large. List unary methods with
	// large replies: the size of a reply is not known in advance.
	Methods map[string]Class
	// BulkBytes is the size of a protobuf request, in bytes, from which a call of a unary method
	// that is not in Methods is Bulk. Default: [DefaultBulkBytes]. Negative: the size is ignored.
	BulkBytes int

	// StreamsPerConnection bounds the concurrent calls and streams on one connection, below the
	// server's own limit. Further calls wait if the class has its maximum of connections. Set it
	// if a load balancing policy has several connections and puts all calls on one of them: the
	// pool adds up the limits of all connected ones. Default: only the server's limits.
	StreamsPerConnection int

	// IdleTimeout is how long fewer connections must have sufficed before one drains and is closed
	// after its last call. At least 1 ms. Default: [DefaultIdleTimeout]. Negative: connections are kept.
	IdleTimeout time.Duration
}

// Bounds bound the number of connections of a class.
type Bounds struct {
	// Min is the number of connections of the class from its first call on. Default: 1.
	Min int
	// Max is the maximum, draining ones included. Default: [DefaultMaxConnections], or Min if that
	// is more.
	Max int
}

// validate returns an error with the first invalid field and its allowed values.
func (c Config) validate() error {
	for class, b := range c.bounds() {
		switch name := classFields[class]; {
		case b.Min < 0:
			return fmt.Errorf("grpcpool: Config.%s.Min is %d; it must be 1 or more, or 0 for 1", name, b.Min)
		case b.Max < 0:
			return fmt.Errorf("grpcpool: Config.%s.Max is %d; it must be 1 or more, or 0 for %d", name, b.Max, DefaultMaxConnections)
		case b.Max > 0 && b.Max < b.Min:
			return fmt.Errorf("grpcpool: Config.%s.Max is %d, less than its Min, %d; raise Max or remove it", name, b.Max, b.Min)
		}
	}
	switch {
	case c.StreamsPerConnection < 0:
		return fmt.Errorf("grpcpool: Config.StreamsPerConnection is %d; it must be 1 or more, or 0 for the server's limit alone", c.StreamsPerConnection)
	case c.IdleTimeout > 0 && c.IdleTimeout < time.Millisecond: // a wrong unit, with which connections come and go
		return fmt.Errorf("grpcpool: Config.IdleTimeout is %v; it must be at least %v, 0 for %v, or negative to keep connections", c.IdleTimeout, time.Millisecond, DefaultIdleTimeout)
	}
	for method, class := range c.Methods {
		if !class.valid() {
			return fmt.Errorf("grpcpool: Config.Methods[%q] is %v; it must be Unary, Bulk or Streams", method, class)
		}
		if rest, ok := strings.CutPrefix(method, "/"); !ok || strings.Count(rest, "/") != 1 || rest[0] == '/' {
			return fmt.Errorf("grpcpool: Config.Methods has the key %q; it must be a full method name as \"/package.Service/Method\", or \"/package.Service/\"", method)
		}
	}
	return nil
}

// withDefaults returns the configuration with a value in every field that has a default.
func (c Config) withDefaults() Config {
	for _, b := range []*Bounds{&c.Unary, &c.Bulk, &c.Streams} {
		b.Min = max(b.Min, 1)
		b.Max = cmp.Or(b.Max, max(DefaultMaxConnections, b.Min))
	}
	c.BulkBytes = cmp.Or(c.BulkBytes, DefaultBulkBytes)
	c.IdleTimeout = cmp.Or(c.IdleTimeout, DefaultIdleTimeout)
	return c
}

func (c Config) bounds() [classes]Bounds {
	return [classes]Bounds{Unary: c.Unary, Bulk: c.Bulk, Streams: c.Streams}
}

// Constants of RFC 9113: the frame header (4.1), the SETTINGS frame (6.5) and the GOAWAY frame
// (6.8).
const (
	frameHeaderLen            = 9
	positionType              = 3
	positionFlags             = 4
	frameSettings        byte = 0x4
	frameGoAway          byte = 0x7
	flagAck              byte = 0x1
	settingLen                = 6
	positionSettingValue      = 2
	settingMaxConcurrent      = 0x3
	unlimited                 = math.MaxUint32 // the limit of a server that sends none
)

// settingsReader extracts the stream limit and GOAWAYs from the bytes that a server sends, which
// arrive in pieces of any size.
type settingsReader struct {
	// found is called with each limit that the server sets, and once with unlimited if it starts
	// without one.
	found func(limit uint32)
	// leaving is called with each GOAWAY.
	leaving func()

	frame   []byte // what has arrived of a header, and of its payload if that is settings
	payload int    // the length of those settings; 0 before the header is complete
	skip    int    // remaining bytes of another payload
	frames  bool   // there was a frame before
	off     bool   // the peer does not speak HTTP/2
}

// read processes the next bytes.
func (r *settingsReader) read(p []byte) {
	for len(p) > 0 && !r.off {
		if r.skip > 0 {
			n := min(len(p), r.skip)
			r.skip -= n
			p = p[n:]
			continue
		}
		n := min(len(p), frameHeaderLen+r.payload-len(r.frame))
		r.frame = append(r.frame, p[:n]...)
		p = p[n:]
		if len(r.frame) == frameHeaderLen+r.payload {
			r.process()
		}
	}
}

// process is called when the header of a frame is complete, and again when its settings are. The first frame of
// a server must be SETTINGS, and the settings of a frame must be complete; otherwise the peer does not speak HTTP/2.
func (r *settingsReader) process() {
	length := int(r.frame[0])<<16 | int(r.frame[1])<<8 | int(r.frame[2])
	settings := r.frame[positionType] == frameSettings && r.frame[positionFlags]&flagAck == 0
	switch {
	case !settings && !r.frames, settings && length%settingLen != 0:
		r.off = true
	case settings && r.payload < length:
		r.payload = length
		return
	case settings:
		r.processSettings(r.frame[frameHeaderLen:])
	default:
		r.skip = length
		if r.frame[positionType] == frameGoAway {
			r.leaving()
		}
	}
	r.frame, r.payload, r.frames = r.frame[:0], 0, true
}

// processSettings looks for the limit. If there are several, the last one counts.
func (r *settingsReader) processSettings(all []byte) {
	limit, known := uint32(unlimited), !r.frames
	for ; len(all) > 0; all = all[settingLen:] {
		if binary.BigEndian.Uint16(all) == settingMaxConcurrent {
			limit, known = binary.BigEndian.Uint32(all[positionSettingValue:]), true
		}
	}
	if known {
		r.found(limit)
	}
}
