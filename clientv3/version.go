package clientv3

import (
	"context"
	"fmt"
	"sync"

	"github.com/coreos/go-semver/semver"
	"go.etcd.io/etcd/api/v3/version"
)

// checkVersion returns ErrOldCluster if a member is too old, and the member's error
// if its status cannot be read.
func (c *Client) checkVersion(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	for _, ep := range c.Endpoints() {
		wg.Go(func() {
			if err := c.checkMember(ctx, ep); err != nil {
				cancel(err)
			}
		})
	}
	wg.Wait()
	return context.Cause(ctx)
}

func (c *Client) checkMember(ctx context.Context, ep string) error {
	resp, err := c.Status(ctx, ep)
	if err != nil {
		return err
	}
	v, err := semver.NewVersion(resp.Version)
	if err != nil {
		return fmt.Errorf("member %x reports the version %q: %w", resp.Header.GetMemberId(), resp.Version, err)
	}
	if v.LessThan(*oldestSupported()) {
		return ErrOldCluster
	}
	return nil
}

// oldestSupported returns the minor release before the one whose API this client
// uses.
func oldestSupported() *semver.Version {
	v := semver.New(version.Version)
	oldest := &semver.Version{Major: v.Major, Minor: v.Minor}
	for _, known := range version.AllVersions {
		if known.LessThan(semver.Version{Major: v.Major, Minor: v.Minor}) {
			oldest = &semver.Version{Major: known.Major, Minor: known.Minor}
		}
	}
	return oldest
}
