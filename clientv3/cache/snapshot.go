package cache

import (
	"cmp"
	"math"

	"github.com/google/btree"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/internal/reply"
	"github.com/quorate/quorate/clientv3/internal/semantics"
)

// item is a key of a tree. Its KeyValue is never changed.
type item struct {
	key string
	kv  *mvccpb.KeyValue
}

// keyOverhead is about what a key occupies besides its bytes: the KeyValue, its item and its share
// of the tree.
const keyOverhead = 200

// keyNodes is about what a key occupies in the nodes of a tree, copiedNodes what a change of one key copies of a large tree.
const (
	keyNodes    = 64
	copiedNodes = 6 << 10
)

func (it item) bytes() int64 {
	return int64(2*len(it.key) + len(it.kv.Value) + keyOverhead)
}

// tree is a sorted set of keys. Clone is cheap, and its copies share what they have in common.
type tree = btree.BTreeG[item]

// snapshot is the state of a prefix at a revision. It does not change.
type snapshot struct {
	tree *tree
	// rev is the revision up to which every change is in the tree.
	rev   int64
	bytes int64
	// history tells the histories of the cluster apart: within one, equal revisions of a key mean an equal value.
	history int64
	// header names the cluster, and the member that reported rev.
	header *pb.ResponseHeader
}

// version is a snapshot that was valid for some revisions.
type version struct {
	tree        *tree
	first, last int64
	replaced    int64 // bytes that the next version replaced
}

// at returns the snapshot as it would answer a read at the revision of another tree.
func (s *snapshot) at(t *tree) *snapshot { return &snapshot{tree: t, rev: s.rev, header: s.header} }

// rangeOf returns the range of a get or a watch.
func rangeOf(op clientv3.Op) semantics.Range { return semantics.Of(op.KeyBytes(), op.RangeBytes()) }

// answerable reports whether a snapshot answers such a get as etcd does. The others are errors,
// or for etcd to say.
func answerable(op clientv3.Op) bool {
	return len(op.KeyBytes()) > 0 && op.Limit() >= 0 && op.IsSortOptionValid()
}

// answer returns what etcd 3.7 answers at the revision of the snapshot to a get that is answerable. The
// response shares no memory with the snapshot. whole says that the range is the whole tree.
func (s *snapshot) answer(op clientv3.Op, r semantics.Range, whole bool) *clientv3.GetResponse {
	resp := &clientv3.GetResponse{Header: reply.Header(s.header, s.rev)}
	if whole && op.IsCountOnly() {
		resp.Count = int64(s.tree.Len())
		return resp
	}
	request := reply.Selection(op)
	kvs, count := s.read(r, semantics.LimitBeforeSort(request), op.IsCountOnly(), whole)
	resp.Count = count
	if op.IsCountOnly() {
		return resp
	}
	kvs, resp.More = semantics.Select(request, kvs)
	for i, kv := range kvs {
		kvs[i] = reply.Key(kv, op)
	}
	resp.Kvs = kvs
	return resp
}

// read returns the first keys of a range, all if limit is 0, and the number of all.
func (s *snapshot) read(r semantics.Range, limit int64, countOnly, whole bool) (kvs []*mvccpb.KeyValue, count int64) {
	if r.Single() {
		it, ok := s.tree.Get(item{key: r.Key})
		if !ok {
			return nil, 0
		}
		return []*mvccpb.KeyValue{it.kv}, 1
	}
	if whole {
		kvs = make([]*mvccpb.KeyValue, 0, min(int64(s.tree.Len()), cmp.Or(limit, math.MaxInt64)))
	}
	visit := func(it item) bool {
		count++
		if full := limit > 0 && count > limit; !full && !countOnly {
			kvs = append(kvs, it.kv)
		} else if full && whole {
			return false // the count is known
		}
		return true
	}
	if r.End == "\x00" {
		s.tree.AscendGreaterOrEqual(item{key: r.Key}, visit)
	} else {
		s.tree.AscendRange(item{key: r.Key}, item{key: r.End}, visit)
	}
	if whole {
		count = int64(s.tree.Len())
	}
	return kvs, count
}
