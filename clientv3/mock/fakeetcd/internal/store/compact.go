package store

import (
	"slices"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/protobuf/proto"

	"github.com/quorate/quorate/clientv3/internal/semantics"
)

// Compact answers a CompactionRequest.
func (s *Store) Compact(r *pb.CompactionRequest) (*pb.CompactionResponse, error) {
	if r.Revision <= s.compacted {
		return nil, rpctypes.ErrGRPCCompacted
	}
	if r.Revision > s.rev {
		return nil, rpctypes.ErrGRPCFutureRev
	}
	s.compacted = r.Revision
	for key, history := range s.keys {
		if kept := compactHistory(history, r.Revision); len(kept) > 0 {
			s.keys[key] = kept
		} else {
			delete(s.keys, key)
		}
	}
	s.notify()
	return &pb.CompactionResponse{Header: &pb.ResponseHeader{Revision: s.rev}}, nil
}

// compactHistory drops what cannot be read any more: everything before the
// change that is visible at rev, and that one too if it is a deletion.
func compactHistory(history []change, rev int64) []change {
	first := 0
	for i, c := range history {
		if c.kv.ModRevision <= rev {
			first = i
			if c.deleted {
				first = i + 1
			}
		}
	}
	return slices.Clone(history[first:])
}

// Encode returns all keys at the current revision as a marshalled
// RangeResponse: what the fake has in place of a database file.
func (s *Store) Encode() []byte {
	all := &pb.RangeResponse{Kvs: s.rangeAt(semantics.Of([]byte{0}, []byte{0}), s.rev)}
	// Only a string that is not UTF-8 fails to marshal, and there is none.
	data, _ := proto.Marshal(all)
	return data
}
