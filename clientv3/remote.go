package clientv3

import (
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"

	"github.com/quorate/quorate/clientv3/internal/lineage"
	"github.com/quorate/quorate/internal/channel"
)

// RetryKVClient returns the KV service as the client calls it: errors are handled
// by the method's safety, calls carry the client's credentials.
func RetryKVClient(c *Client) pb.KVClient {
	conn := c.transport()
	return &ownKV{pb.NewKVClient(conn), conn, historyOf(c)}
}

// RetryLeaseClient returns the Lease service as the client calls it: errors are
// handled by the method's safety, calls carry the client's credentials.
func RetryLeaseClient(c *Client) pb.LeaseClient { return ownLease{pb.NewLeaseClient(c.transport())} }

// RetryClusterClient returns the Cluster service as the client calls it: errors are
// handled by the method's safety, calls carry the client's credentials.
func RetryClusterClient(c *Client) pb.ClusterClient { return pb.NewClusterClient(c.transport()) }

// RetryAuthClient returns the Auth service as the client calls it: errors are
// handled by the method's safety, calls carry the client's credentials.
func RetryAuthClient(c *Client) pb.AuthClient { return pb.NewAuthClient(c.transport()) }

// RetryMaintenanceClient returns the Maintenance service over conn, with the
// client's handling of errors. conn stays the caller's to close.
func RetryMaintenanceClient(c *Client, conn *grpc.ClientConn) pb.MaintenanceClient {
	return pb.NewMaintenanceClient(c.over(conn))
}

// The remotes over the client's own connection, whose streams can be opened over a
// Retrier; those of a remote that somebody else made cannot.
type (
	ownKV struct {
		pb.KVClient // for what is not of this client's own making

		conn    grpc.ClientConnInterface
		history *lineage.Tracker
	}
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

// over returns the remote whose streams are to be opened: over the Retrier, if that is
// possible.
func over[T any](c *Client, r *channel.Retrier, remote T, make func(grpc.ClientConnInterface) T) T {
	if isOwn(remote) && c != nil && c.channel != nil {
		return make(r)
	}
	return remote
}
