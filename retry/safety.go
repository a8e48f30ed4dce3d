package retry

import pb "go.etcd.io/etcd/api/v3/etcdserverpb"

// Safety is whether a call may be sent more than once.
type Safety uint8

const (
	// Mutating calls must be executed at most once: they are sent again only
	// when it is certain that no attempt was or will be executed.
	Mutating Safety = iota
	// Repeatable calls may be executed any number of times: they only read, or are
	// idempotent.
	Repeatable
)

// String returns the name of the constant, or "Safety(n)" for any other value.
func (s Safety) String() string {
	return nameOf("Safety", []string{Mutating: "Mutating", Repeatable: "Repeatable"}, int(s))
}

// SafetyOf returns the safety of one call: of the method, given as
// "/package.Service/Method", or of its content if the safety depends on that (Txn,
// LeaseGrant; see [Method.ByContent]). The request is read, not retained. A method that
// is not in [Methods], and a request of an unexpected type, are [Mutating].
func SafetyOf(method string, req any) Safety {
	m, ok := methodsByName[method]
	if !ok {
		return Mutating
	}
	if m.content != nil && m.content(req) {
		return Repeatable
	}
	return m.Safety
}

func txnReads(req any) bool {
	txn, ok := req.(*pb.TxnRequest)
	return ok && txn != nil && onlyReads(txn)
}

func onlyReads(txn *pb.TxnRequest) bool {
	for _, branch := range [2][]*pb.RequestOp{txn.GetSuccess(), txn.GetFailure()} {
		for _, op := range branch {
			switch r := op.GetRequest().(type) {
			case *pb.RequestOp_RequestRange:
			case *pb.RequestOp_RequestTxn:
				if !onlyReads(r.RequestTxn) {
					return false
				}
			default:
				return false
			}
		}
	}
	return true
}

// grantHasID reports whether the client chose the lease's id, so that a second
// execution is answered with ErrLeaseExist instead of a second lease.
func grantHasID(req any) bool {
	grant, ok := req.(*pb.LeaseGrantRequest)
	return ok && grant.GetID() != 0
}
