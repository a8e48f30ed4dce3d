package fault

import (
	"context"
	"fmt"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/quorate/quorate/lab"
)

// defrag defragments a member for as long as the scene says, one time after the
// other. The member answers nothing that needs its store while it is at it; a store
// of the lab's size takes it a fraction of a second, one of gigabytes many seconds,
// so that repeating it comes near to what operators see.
func defrag(ctx context.Context, s Scene, m *lab.Member) error {
	times := 0
	for end := time.Now().Add(s.hold()); time.Now().Before(end); times++ {
		if _, err := pb.NewMaintenanceClient(m.Conn()).Defragment(ctx, &pb.DefragmentRequest{}); err != nil {
			return fmt.Errorf("defragment %s: %w", m.Name(), err)
		}
	}
	s.Note(fmt.Sprintf("%s was defragmented %d times", m.Name(), times))
	return nil
}
