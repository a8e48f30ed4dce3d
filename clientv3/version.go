package clientv3

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/coreos/go-semver/semver"
	"go.etcd.io/etcd/api/v3/version"
)

// checkVersion returns ErrOldCluster if a member that answers is too old. After the first
// answer it waits for the others for probeTimeout at most. If none answers, it returns the
// first error.
func (c *Client) checkVersion(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type answer struct {
		*StatusResponse
		err error
	}
	eps := c.Endpoints()
	answers := make(chan answer, len(eps))
	for _, ep := range eps {
		go func() {
			resp, err := c.Status(ctx, ep)
			answers <- answer{resp, err}
		}()
	}
	var first error
	var enough <-chan time.Time // nil before the first answer
	for range eps {
		select {
		case a := <-answers:
			if a.err != nil {
				first = cmp.Or(first, a.err)
				continue
			}
			if err := checkMember(a.StatusResponse); err != nil {
				return err
			}
			if enough == nil {
				enough = time.After(probeTimeout)
			}
		case <-enough:
			return nil
		}
	}
	if enough != nil {
		return nil
	}
	return ContextError(ctx, first)
}

func checkMember(resp *StatusResponse) error {
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
