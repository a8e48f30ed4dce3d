package fakeetcd

import (
	"go.etcd.io/etcd/api/v3/authpb"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/quorate/quorate/clientv3/mock/fakeetcd/internal/store"
)

var leaseService = map[string]service{
	"LeaseGrant":      storeMethod(users, withoutKeys, (*store.Store).LeaseGrant),
	"LeaseRevoke":     storeMethod(users, (*Call).permitRevoke, (*store.Store).LeaseRevoke),
	"LeaseTimeToLive": unary(users, leaseTimeToLive),
	"LeaseLeases":     unary(users, leaseLeases),
	"LeaseKeepAlive":  streaming(open, leaseKeepAlive),
}

func leaseTimeToLive(c *Call, r *pb.LeaseTimeToLiveRequest) (*pb.LeaseTimeToLiveResponse, error) {
	if r.Keys {
		if err := c.permitLease(r.ID, authpb.Permission_READ); err != nil {
			return nil, err
		}
	}
	if c.cluster.leader == nil {
		return nil, rpctypes.ErrGRPCNoLeader
	}
	return c.cluster.store.LeaseTimeToLive(r), nil
}

func leaseLeases(c *Call, _ *pb.LeaseLeasesRequest) (*pb.LeaseLeasesResponse, error) {
	resp := c.cluster.store.LeaseLeases()
	for _, l := range resp.Leases {
		if err := c.permitLease(l.ID, authpb.Permission_READ); err != nil {
			return nil, err
		}
	}
	return resp, nil
}

func leaseKeepAlive(c *Call) error {
	requests, lost := c.requests(), c.leaderLost()
	for {
		select {
		case req, ok := <-requests:
			if !ok {
				return c.Context().Err()
			}
			resp, err := c.renew(req.(*pb.LeaseKeepAliveRequest))
			if err == nil {
				err = c.send(resp)
			}
			if err != nil {
				return err
			}
		case <-lost:
			return rpctypes.ErrGRPCNoLeader
		case <-c.Context().Done():
			return c.Context().Err()
		}
	}
}

// renew returns the answer to one keepalive: TTL 0 if the lease does not exist. Only the leader renews a lease.
func (c *Call) renew(r *pb.LeaseKeepAliveRequest) (*pb.LeaseKeepAliveResponse, error) {
	c.cluster.mu.Lock()
	defer c.cluster.mu.Unlock()
	if c.cluster.leader == nil {
		return nil, rpctypes.ErrGRPCNoLeader
	}
	if err := users(c); err != nil {
		return nil, err
	}
	if err := c.permitLease(r.ID, authpb.Permission_WRITE); err != nil {
		return nil, err
	}
	resp := c.cluster.store.LeaseRenew(r)
	c.fill(resp.Header, true)
	return resp, nil
}
