package etcd

import (
	"fmt"
	"time"

	gresolver "google.golang.org/grpc/resolver"

	"github.com/quorate/quorate/clientv3"
)

// Scheme is that of the targets: "etcd:///billing".
const Scheme = "etcd"

// Config configures a resolver. The zero value is right for almost everybody.
type Config struct {
	// ReportAfter is how long etcd may be out of reach before the channel is told, and gRPC's
	// log. The default, 1 s, is longer than the election of a leader in a healthy network
	// and than it takes to make a lost connection again, so that neither is told; and short
	// enough that calls with the usual deadlines of seconds, made before there is any
	// list, fail with the reason and not with a bare DeadlineExceeded.
	ReportAfter time.Duration

	// MassRemovalDelay is how long endpoints stay that disappear all at once, so that fewer
	// than half are left, or none: when registrations expire because their processes are cut
	// off from etcd, say, and not from those who call. Time while etcd is out of reach does not
	// count. What is new is used at once. Default 15 s, that of resolver/dns; negative: no
	// delay.
	MassRemovalDelay time.Duration
}

const defaultMassRemovalDelay = 15 * time.Second

func (c Config) validate() error {
	if c.ReportAfter < 0 {
		return fmt.Errorf("etcd: ReportAfter is %v: it cannot be negative; 0 means 1s", c.ReportAfter)
	}
	return nil
}

// NewBuilder returns a resolver builder for targets with the scheme "etcd", for
// grpc.WithResolvers. The client must stay open for as long as channels use it.
// The error names the field of the configuration that is wrong, or says that there is no
// client.
//
// All channels of a builder to one service share what it knows, and one that opens or wakes
// while etcd is away begins with the last list, for an hour after the last channel.
//
// Build begins to follow the endpoints of a target, and waits for nothing. Its error has
// codes.InvalidArgument: the target names no service.
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
