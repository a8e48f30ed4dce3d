package doctor

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// commonRevision returns the lowest of the revisions of the members.
func commonRevision(visits []*visit) int64 {
	revision := int64(math.MaxInt64)
	for _, v := range visits {
		if v.status != nil && v.failed == stepNone {
			revision = min(revision, v.status.Header.GetRevision())
		}
	}
	return revision
}

// askHash asks a member for the hash of its data at a revision.
func (v *visit) askHash(ctx context.Context, revision int64) {
	if v.status == nil || v.failed != stepNone {
		return
	}
	v.within(ctx, func(ctx context.Context) {
		v.hash, v.hashErr = pb.NewMaintenanceClient(v.conn).HashKV(v.signed(ctx), &pb.HashKVRequest{Revision: revision})
	})
}

// hashes compares the hashes of members that are compacted to the same revision: those of others differ anyway.
func (d *diagnosis) hashes() {
	type compacted struct{ cluster, at uint64 }
	of := map[compacted]map[uint32][]string{}
	for _, v := range d.members() {
		if v.hashErr != nil && !v.status.IsLearner { // which gives none
			d.finding(v, Warning, "hash-unknown", "a longer --command-timeout; with authentication --user root",
				"its data is compared with that of no other member: %s", message(v.hashErr))
		}
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
		d.clusterFinding(Error, "hash-differs", "etcdctl endpoint hashkv --cluster; then remove the member that differs from the majority, and add it anew",
			"the data of the members differs at one revision: %s", strings.Join(parts, "; "))
	}
}
