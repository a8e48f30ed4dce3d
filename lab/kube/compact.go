package kube

import (
	"context"
	"fmt"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// compactKey is outside of what the API server keeps in etcd.
const compactKey = "quorate-lab/compact"

// Compact has etcd forget its history, and returns the revision up to which. That is
// later than everything that clients have seen, because Compact makes a change of its
// own. Revisions are what the API server calls resource versions. One that runs goes
// on to serve watches from what it remembers itself: one that is started after Compact
// answers 410 to those that resume.
func (c *ControlPlane) Compact(ctx context.Context) (int64, error) {
	kv := pb.NewKVClient(c.etcd.Members()[0].Conn())
	now, err := kv.Put(ctx, &pb.PutRequest{Key: []byte(compactKey)})
	if err != nil {
		return 0, fmt.Errorf("kube: compact: %w", err)
	}
	revision := now.GetHeader().GetRevision()
	if _, err := kv.Compact(ctx, &pb.CompactionRequest{Revision: revision, Physical: true}); err != nil {
		return 0, fmt.Errorf("kube: compact to %d: %w", revision, err)
	}
	return revision, nil
}
