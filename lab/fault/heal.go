package fault

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/quorate/quorate/lab"
)

// Heal ends every fault: links carry again, stopped members continue, those that
// are not running are restarted, and all agree on a leader. It returns when that
// is so, or with an error when ctx ends first.
func Heal(ctx context.Context, s Scene) error {
	s.Cluster.Heal()
	s.Front.heal()
	members := s.Cluster.Members()
	errs := make([]error, len(members))
	var wg sync.WaitGroup
	for i, m := range members {
		wg.Go(func() { errs[i] = revive(ctx, m) })
	}
	wg.Wait()
	err := errors.Join(errs...)
	if err == nil {
		err = s.Cluster.WaitReady(ctx)
	}
	if err != nil {
		return fmt.Errorf("heal: %w", err)
	}
	return nil
}

// revive makes a member run, whatever it does now.
func revive(ctx context.Context, m *lab.Member) error {
	if !m.Alive() {
		return m.Restart(ctx)
	}
	return m.Continue()
}
