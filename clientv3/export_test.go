package clientv3

import pb "go.etcd.io/etcd/api/v3/etcdserverpb"

// OwnLease makes a service treat a remote as the client's own.
func OwnLease(remote pb.LeaseClient) pb.LeaseClient { return ownLease{remote} }
