package resolvers

import (
	"strings"
	"time"

	"google.golang.org/grpc/resolver"

	"github.com/quorate/quorate/resolver/static"
)

// staticSource is a target that lists the backends. It has no faults, and its list never
// changes; channels come and go.
type staticSource struct{ addresses []string }

func (s *staticSource) builder(time.Duration) (resolver.Builder, []string, error) {
	b, err := static.NewBuilder(static.Config{})
	return b, []string{"static:///" + strings.Join(s.addresses, ",")}, err
}

func (s *staticSource) list(addresses []string) { s.addresses = addresses }

func (*staticSource) faults() []disturbance   { return nil }
func (*staticSource) patience() time.Duration { return 0 }
func (*staticSource) arrivals() []time.Time   { return nil }
func (*staticSource) close() error            { return nil }
