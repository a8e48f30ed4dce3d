package resolve

import (
	"context"
	"sync"

	"google.golang.org/grpc"

	"github.com/quorate/quorate/health"
	"github.com/quorate/quorate/health/etcdprobe"
)

// Member is a [health.Prober] of etcd members: it asks for service, and for a sign of life in
// case there is none. A member whose health service reports NOT_SERVING is Refusing, whatever it
// still serves.
type Member struct{}

var _ health.Prober = Member{}

// Probe makes one report at most: that the member refuses, else its service, else that it is alive.
func (Member) Probe(ctx context.Context, conn grpc.ClientConnInterface, report func(health.Report)) {
	var service, life *health.Report
	var calls sync.WaitGroup
	calls.Go(func() { etcdprobe.Service{}.Probe(ctx, conn, func(r health.Report) { service = &r }) })
	calls.Go(func() { etcdprobe.Liveness{}.Probe(ctx, conn, func(r health.Report) { life = &r }) })
	calls.Wait()
	switch {
	case life != nil && (service == nil || life.Kind == health.Refusing):
		report(*life)
	case service != nil:
		report(*service)
	}
}
