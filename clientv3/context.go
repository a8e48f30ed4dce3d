package clientv3

import (
	"context"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/metadata"
)

// WithRequireLeader makes calls and streams with the returned context fail with
// rpctypes.ErrNoLeader when no endpoint that can be reached knows a leader, instead
// of waiting for one. Other outgoing metadata of ctx is kept.
func WithRequireLeader(ctx context.Context) context.Context {
	md, ok := metadata.FromOutgoingContext(ctx)
	if !ok {
		md = metadata.MD{}
	}
	// FromOutgoingContext returned a copy, so setting the key races with nobody.
	md.Set(rpctypes.MetadataRequireLeaderKey, rpctypes.MetadataHasLeader)
	return metadata.NewOutgoingContext(ctx, md)
}
