package store

import (
	"bytes"
	"maps"
	"slices"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/protobuf/proto"

	"github.com/quorate/quorate/clientv3/internal/semantics"
)

// maxTxnOps is etcd's default of --max-txn-ops: how many comparisons, and how
// many operations in either branch, a transaction may have.
const maxTxnOps = 128

// Check refuses a request that no state of the store can answer, such as one
// without a key. A server does so before it checks permissions. The methods of
// Store take only requests that have passed.
func Check(req proto.Message) error {
	switch r := req.(type) {
	case *pb.RangeRequest:
		return checkRange(r)
	case *pb.PutRequest:
		return checkPut(r)
	case *pb.DeleteRangeRequest:
		return checkDelete(r)
	case *pb.TxnRequest:
		return checkTxn(r)
	default:
		return nil
	}
}

func checkRange(r *pb.RangeRequest) error {
	if len(r.Key) == 0 {
		return rpctypes.ErrGRPCEmptyKey
	}
	_, order := pb.RangeRequest_SortOrder_name[int32(r.SortOrder)]
	_, target := pb.RangeRequest_SortTarget_name[int32(r.SortTarget)]
	if !order || !target {
		return rpctypes.ErrGRPCInvalidSortOption
	}
	return nil
}

func checkPut(r *pb.PutRequest) error {
	switch {
	case len(r.Key) == 0:
		return rpctypes.ErrGRPCEmptyKey
	case r.IgnoreValue && len(r.Value) != 0:
		return rpctypes.ErrGRPCValueProvided
	case r.IgnoreLease && r.Lease != 0:
		return rpctypes.ErrGRPCLeaseProvided
	default:
		return nil
	}
}

func checkDelete(r *pb.DeleteRangeRequest) error {
	if len(r.Key) == 0 {
		return rpctypes.ErrGRPCEmptyKey
	}
	return nil
}

func checkTxn(r *pb.TxnRequest) error {
	if err := checkTxnOps(r, maxTxnOps); err != nil {
		return err
	}
	if _, err := checkOverlaps(r.Success); err != nil {
		return err
	}
	_, err := checkOverlaps(r.Failure)
	return err
}

// checkTxnOps checks each part of r on its own. The operations of one level count
// against the limit of the levels below it.
func checkTxnOps(r *pb.TxnRequest, limit int) error {
	used := max(len(r.Compare), len(r.Success), len(r.Failure))
	if used > limit {
		return rpctypes.ErrGRPCTooManyOps
	}
	for _, c := range r.Compare {
		if len(c.Key) == 0 {
			return rpctypes.ErrGRPCEmptyKey
		}
	}
	for _, op := range slices.Concat(r.Success, r.Failure) {
		if err := checkOp(op, limit-used); err != nil {
			return err
		}
	}
	return nil
}

func checkOp(op *pb.RequestOp, limit int) error {
	switch r := op.Request.(type) {
	case *pb.RequestOp_RequestRange:
		return checkRange(r.RequestRange)
	case *pb.RequestOp_RequestPut:
		return checkPut(r.RequestPut)
	case *pb.RequestOp_RequestDeleteRange:
		return checkDelete(r.RequestDeleteRange)
	case *pb.RequestOp_RequestTxn:
		return checkTxnOps(r.RequestTxn, limit)
	default:
		return rpctypes.ErrGRPCKeyNotFound
	}
}

// writes is what one branch of a transaction puts and deletes.
type writes struct {
	puts map[string]bool
	dels []semantics.Range
}

func (w *writes) clashes(key string) bool {
	return w.puts[key] || slices.ContainsFunc(w.dels, func(d semantics.Range) bool { return d.Contains(key) })
}

// checkOverlaps refuses a branch that puts a key twice, or puts and deletes it.
// The two branches of a nested transaction exclude each other, so both may put
// the same key.
func checkOverlaps(ops []*pb.RequestOp) (*writes, error) {
	all := &writes{puts: make(map[string]bool)}
	for _, op := range ops {
		// etcd overlooks deletions of every key from one on.
		if d := op.GetRequestDeleteRange(); d != nil && !bytes.Equal(d.RangeEnd, []byte{0}) {
			all.dels = append(all.dels, semantics.Of(d.Key, d.RangeEnd))
		}
	}
	for _, op := range ops {
		if t := op.GetRequestTxn(); t != nil {
			if err := all.addNested(t); err != nil {
				return nil, err
			}
		}
	}
	for _, op := range ops {
		if p := op.GetRequestPut(); p != nil {
			if all.clashes(string(p.Key)) {
				return nil, rpctypes.ErrGRPCDuplicateKey
			}
			all.puts[string(p.Key)] = true
		}
	}
	return all, nil
}

func (w *writes) addNested(t *pb.TxnRequest) error {
	var branches []*writes
	for _, ops := range [][]*pb.RequestOp{t.Success, t.Failure} {
		branch, err := checkOverlaps(ops)
		if err != nil {
			return err
		}
		for key := range branch.puts {
			if w.clashes(key) {
				return rpctypes.ErrGRPCDuplicateKey
			}
		}
		branches = append(branches, branch)
	}
	for _, branch := range branches {
		maps.Copy(w.puts, branch.puts)
		w.dels = append(w.dels, branch.dels...)
	}
	return nil
}
