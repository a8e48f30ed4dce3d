package doctor

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// hash asks all members for the hash of their data at the lowest of their revisions.
func hash(ctx context.Context, visits []*visit) {
	revision := int64(math.MaxInt64)
	for _, v := range visits {
		if v.status != nil && v.failed == stepNone {
			revision = min(revision, v.status.Header.GetRevision())
		}
	}
	each(visits, func(v *visit) {
		if v.status == nil || v.failed != stepNone {
			return
		}
		s := stepHash
		v.doing.Store(&s)
		defer v.doing.Store(nil)
		ctx, cancel := context.WithTimeout(ctx, v.cfg.Timeout)
		defer cancel()
		if reply, err := pb.NewMaintenanceClient(v.conn).HashKV(v.signed(ctx), &pb.HashKVRequest{Revision: revision}); err == nil {
			v.hash = reply
		}
	})
}

// hashes compares the hashes of members that are compacted alike: of others they differ.
func (d *diagnosis) hashes() {
	type compacted struct{ cluster, at uint64 }
	of := map[compacted]map[uint32][]string{}
	for _, v := range d.members() {
		if v.hash == nil {
			continue
		}
		key := compacted{v.status.Header.ClusterId, uint64(v.hash.CompactRevision)} //nolint:gosec // it is not negative
		if of[key] == nil {
			of[key] = map[uint32][]string{}
		}
		name := d.nameOf(v.status.Header.MemberId)
		if !slices.Contains(of[key][v.hash.Hash], name) {
			of[key][v.hash.Hash] = append(of[key][v.hash.Hash], name)
		}
	}
	for _, hashes := range of {
		if len(hashes) < 2 {
			continue
		}
		var parts []string
		for hash, members := range hashes {
			parts = append(parts, fmt.Sprintf("%s %08x", strings.Join(members, ", "), hash))
		}
		slices.Sort(parts)
		d.clusterFinding(Error, HashDiffers, "etcdctl endpoint hashkv --cluster; then remove the member that differs from the majority, and add it anew",
			"the data of the members differs at one revision: %s", strings.Join(parts, "; "))
	}
}
