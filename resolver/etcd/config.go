package etcd

import (
	"fmt"
	"time"

	gresolver "google.golang.org/grpc/resolver"

	"github.com/quorate/quorate/clientv3"
)

// Scheme is the scheme of the targets: "etcd:///billing".
const Scheme = "etcd"

// Config configures a resolver. The zero value is suitable for most programs.
type Config struct {
	// ReportAfter is how long etcd may be unreachable before that is reported to the channel and
	// gRPC's log. The default, 1 s, is longer than an election in a healthy network or a
	// reconnection, which are not reported. It is short enough that calls with deadlines of
	// seconds, made before the first list, fail with the reason instead of DeadlineExceeded.
	ReportAfter time.Duration

	// MassRemovalDelay is how long endpoints are kept if so many disappear at once that fewer
	// than half remain: for example when servers lose contact with etcd, but not with their
	// callers. Time while etcd is unreachable does not count. New endpoints are used at once.
	// Default 15 s, as in resolver/dns; negative: no delay.
	MassRemovalDelay time.Duration

	// Decode returns the address and the metadata of a value, for keys in another format than that of the package comment.
	// A value for which it fails is skipped, as an invalid one is. It must not block.
	Decode func(value []byte) (address string, metadata any, err error)
}

const defaultMassRemovalDelay = 15 * time.Second

func (c Config) validate() error {
	if c.ReportAfter < 0 {
		return fmt.Errorf("etcd: ReportAfter is %v: it cannot be negative; 0 means 1s", c.ReportAfter)
	}
	return nil
}

// NewBuilder returns a resolver builder for targets with the scheme "etcd", for
// grpc.WithResolvers. The client must stay open for as long as channels use it. The error names
// the invalid field of the configuration, or what the client lacks.
//
// All channels of a builder to one service share its endpoints. A channel that opens or
// leaves idle mode while etcd is unreachable starts with the last list, which is kept for
// an hour after the last channel.
//
// Build starts to follow the endpoints of a target and does not block. Its error has
// codes.InvalidArgument if the target names no service.
func NewBuilder(client *clientv3.Client, cfg Config) (gresolver.Builder, error) {
	if err := checkClient(client); err != nil {
		return nil, err
	}
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	if cfg.MassRemovalDelay == 0 {
		cfg.MassRemovalDelay = defaultMassRemovalDelay
	}
	return newBuilder(client, cfg), nil
}
