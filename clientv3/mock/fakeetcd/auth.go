package fakeetcd

import (
	"slices"

	"go.etcd.io/etcd/api/v3/authpb"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/protobuf/proto"

	"github.com/quorate/quorate/clientv3/mock/fakeetcd/internal/auth"
)

var authService = map[string]service{
	"AuthEnable":   authMethod(admins, (*auth.Store).Enable),
	"AuthDisable":  authMethod(admins, (*auth.Store).Disable),
	"AuthStatus":   authMethod(checked, (*auth.Store).Status),
	"Authenticate": authMethod(open, (*auth.Store).Authenticate),

	"UserAdd":       authMethod(admins, (*auth.Store).UserAdd),
	"UserList":      authMethod(admins, (*auth.Store).UserList),
	"UserGrantRole": authMethod(admins, (*auth.Store).UserGrantRole),

	"RoleAdd":             authMethod(admins, (*auth.Store).RoleAdd),
	"RoleGrantPermission": authMethod(admins, (*auth.Store).RoleGrantPermission),
}

// authMethod makes a service from a method of the auth store. Even reads go through
// raft.
func authMethod[Q, R proto.Message](a access, f func(*auth.Store, Q) (R, error)) service {
	return proposed(a, func(c *Call, req Q) (R, error) { return f(c.cluster.auth, req) })
}

// permit checks that the caller may read, or write, a range of keys.
func (c *Call) permit(want authpb.Permission_Type, key, rangeEnd []byte) error {
	user, err := c.user()
	if err != nil {
		return err
	}
	return c.cluster.auth.Permit(user, want, key, rangeEnd)
}

func (c *Call) permitPut(r *pb.PutRequest) error {
	if err := c.permit(authpb.Permission_WRITE, r.Key, nil); err != nil {
		return err
	}
	if err := c.permitLease(r.Lease, authpb.Permission_WRITE); err != nil {
		return err
	}
	if r.PrevKv {
		return c.permit(authpb.Permission_READ, r.Key, nil)
	}
	return nil
}

func (c *Call) permitDelete(r *pb.DeleteRangeRequest) error {
	if err := c.permit(authpb.Permission_WRITE, r.Key, r.RangeEnd); err != nil {
		return err
	}
	if r.PrevKv {
		return c.permit(authpb.Permission_READ, r.Key, r.RangeEnd)
	}
	return nil
}

func (c *Call) permitRevoke(r *pb.LeaseRevokeRequest) error {
	return c.permitLease(r.ID, authpb.Permission_WRITE)
}

// permitTxn checks the operations of both branches, since it is not known yet which
// one will run.
func (c *Call) permitTxn(r *pb.TxnRequest) error {
	for _, cmp := range r.Compare {
		if err := c.permit(authpb.Permission_READ, cmp.Key, cmp.RangeEnd); err != nil {
			return err
		}
	}
	for _, op := range slices.Concat(r.Success, r.Failure) {
		if err := c.permitOp(op); err != nil {
			return err
		}
	}
	return nil
}

func (c *Call) permitOp(op *pb.RequestOp) error {
	switch r := op.Request.(type) {
	case *pb.RequestOp_RequestRange:
		return c.permit(authpb.Permission_READ, r.RequestRange.Key, r.RequestRange.RangeEnd)
	case *pb.RequestOp_RequestPut:
		return c.permitPut(r.RequestPut)
	case *pb.RequestOp_RequestDeleteRange:
		return c.permitDelete(r.RequestDeleteRange)
	case *pb.RequestOp_RequestTxn:
		return c.permitTxn(r.RequestTxn)
	default:
		return nil
	}
}

// permitLease checks that the caller may read, or write, every key that is
// attached to a lease.
func (c *Call) permitLease(id int64, want authpb.Permission_Type) error {
	for _, key := range c.cluster.store.LeaseKeys(id) {
		if err := c.permit(want, []byte(key), nil); err != nil {
			return err
		}
	}
	return nil
}
