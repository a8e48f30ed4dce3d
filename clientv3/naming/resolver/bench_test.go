package resolver

import (
	"fmt"
	"sync"
	"testing"

	gresolver "google.golang.org/grpc/resolver"

	"github.com/quorate/quorate/clientv3/naming/internal/registry"
)

// counting is a channel that calls done at the first list of its length.
type counting struct {
	gresolver.ClientConn
	length int
	done   func()
}

func (c *counting) UpdateState(s gresolver.State) error {
	if len(s.Endpoints) == c.length {
		c.done()
		c.length = -1
	}
	return nil
}

func (*counting) ReportError(error) {}

// BenchmarkStorm registers 10,000 servers, one per revision, until 100 channels have the complete
// list.
func BenchmarkStorm(b *testing.B) {
	const servers, channels = 10_000, 100
	for b.Loop() {
		s := newSource("svc", defaultMassRemovalDelay, nil)
		var complete sync.WaitGroup
		for range channels {
			complete.Add(1)
			b.Cleanup(s.Resolve(&counting{length: servers, done: complete.Done}, nil, func() {}).Close)
		}
		for i := range servers {
			addr := fmt.Sprintf("127.%d.%d.%d:1", 1+i/65536, i/256%256, i%256)
			s.Changed([]registry.Change{{
				Key: "svc/" + addr, Revision: int64(i + 1),
				Endpoint: registry.Endpoint{Addr: addr, Metadata: map[string]any{"weight": 1.0, "zone": "a"}},
			}})
		}
		complete.Wait()
	}
}
