package clientv3

import (
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
)

// RetryKVClient returns the KV service as the client calls it: errors are handled
// by the method's safety, calls carry the client's credentials.
func RetryKVClient(c *Client) pb.KVClient { return pb.NewKVClient(c.transport()) }

// RetryLeaseClient returns the Lease service as the client calls it: errors are
// handled by the method's safety, calls carry the client's credentials.
func RetryLeaseClient(c *Client) pb.LeaseClient { return pb.NewLeaseClient(c.transport()) }

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
