package clientv3

import (
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"

	"github.com/quorate/quorate/internal/channel"
)

// RetryKVClient returns the KV service over the client's connection: calls carry
// the client's credentials and are retried according to the method's safety.
func RetryKVClient(c *Client) pb.KVClient {
	conn := c.transport()
	return &ownKV{pb.NewKVClient(conn), conn, orNone(c).history}
}

// RetryLeaseClient returns the Lease service over the client's connection: calls
// carry the client's credentials and are retried according to the method's safety.
func RetryLeaseClient(c *Client) pb.LeaseClient { return ownLease{pb.NewLeaseClient(c.transport())} }

// RetryClusterClient returns the Cluster service over the client's connection:
// calls carry the client's credentials and are retried according to the method's
// safety.
func RetryClusterClient(c *Client) pb.ClusterClient { return pb.NewClusterClient(c.transport()) }

// RetryAuthClient returns the Auth service over the client's connection: calls
// carry the client's credentials and are retried according to the method's safety.
func RetryAuthClient(c *Client) pb.AuthClient { return pb.NewAuthClient(c.transport()) }

// RetryMaintenanceClient returns the Maintenance service over conn, with the
// client's error handling. The caller closes conn.
func RetryMaintenanceClient(c *Client, conn *grpc.ClientConn) pb.MaintenanceClient {
	return pb.NewMaintenanceClient(c.over(conn))
}

// The remotes over the client's own connection, in addition to ownKV. Their streams can be
// opened over a Retrier; those of a program's own remote cannot.
type (
	ownLease       struct{ pb.LeaseClient }
	ownWatch       struct{ pb.WatchClient }
	ownMaintenance struct{ pb.MaintenanceClient }
)

func isOwn(remote any) bool {
	switch remote.(type) {
	case *ownKV, ownLease, ownWatch, ownMaintenance:
		return true
	default:
		return false
	}
}

// over returns the remote that opens streams: over the Retrier if remote is the
// client's own.
func over[T any](c *Client, r *channel.Retrier, remote T, make func(grpc.ClientConnInterface) T) T {
	if isOwn(remote) && c.channel != nil {
		return make(r)
	}
	return remote
}
