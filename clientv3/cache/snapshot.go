package cache

import (
	"bytes"
	"cmp"
	"math"
	"slices"

	"github.com/google/btree"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/internal/reply"
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

func newTree() *tree {
	return btree.NewG(32, func(a, b item) bool { return a.key < b.key })
}

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

// keyRange is a range of keys: one key, those in [key, end), or all from key on.
type keyRange struct {
	key, end string
	single   bool
	endless  bool
}

func rangeOf(op clientv3.Op) keyRange {
	r := keyRange{key: string(op.KeyBytes()), end: string(op.RangeBytes())}
	r.single = r.end == ""
	r.endless = r.end == "\x00"
	return r
}

// includes reports whether the keys of another range are in it.
func (r keyRange) includes(o keyRange) bool {
	switch {
	case o.key < r.key:
		return false
	case r.endless:
		return true
	case o.single:
		return o.key < r.end
	default:
		return !o.endless && o.end <= r.end
	}
}

// answerable reports whether a snapshot answers such a get as etcd does. The others are errors,
// or for etcd to say.
func answerable(op clientv3.Op) bool {
	return len(op.KeyBytes()) > 0 && op.Limit() >= 0 && op.IsSortOptionValid()
}

// answer returns what etcd 3.7 answers at the revision of the snapshot to a get that is answerable. The
// response shares no memory with the snapshot. whole says that the range is the whole tree.
func (s *snapshot) answer(op clientv3.Op, r keyRange, whole bool) *clientv3.GetResponse {
	resp := &clientv3.GetResponse{Header: reply.Header(s.header, s.rev)}
	if whole && op.IsCountOnly() {
		resp.Count = int64(s.tree.Len())
		return resp
	}
	read := readLimit(op)
	kvs, count := s.read(r, read, op.IsCountOnly(), whole)
	resp.Count = count
	if op.IsCountOnly() {
		return resp
	}
	kvs = slices.DeleteFunc(kvs, func(kv *mvccpb.KeyValue) bool { return reply.Filtered(op, kv) })
	sortKVs(op.SortOption(), kvs)
	if limit := op.Limit(); limit > 0 && int64(len(kvs)) > limit {
		kvs, resp.More = kvs[:limit], true
	}
	for i, kv := range kvs {
		kvs[i] = reply.Key(kv, op)
	}
	resp.Kvs = kvs
	return resp
}

// read returns the first keys of a range, all if limit is 0, and the number of all.
func (s *snapshot) read(r keyRange, limit int64, countOnly, whole bool) (kvs []*mvccpb.KeyValue, count int64) {
	if r.single {
		it, ok := s.tree.Get(item{key: r.key})
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
	if r.endless {
		s.tree.AscendGreaterOrEqual(item{key: r.key}, visit)
	} else {
		s.tree.AscendRange(item{key: r.key}, item{key: r.end}, visit)
	}
	if whole {
		count = int64(s.tree.Len())
	}
	return kvs, count
}

// readLimit is how many keys etcd reads before it sorts and filters: one more than the limit, or
// all, 0, where it has to see them all. With a sort target but no order it
// sorts only the first keys.
func readLimit(op clientv3.Op) int64 {
	bounded := op.MinModRev() != 0 || op.MaxModRev() != 0 || op.MinCreateRev() != 0 || op.MaxCreateRev() != 0
	sort := op.SortOption()
	ordered := sort.Order == clientv3.SortNone || sort.Target == clientv3.SortByKey && sort.Order == clientv3.SortAscend
	if bounded || !ordered || op.Limit() <= 0 || op.Limit() == math.MaxInt64 {
		return 0
	}
	return op.Limit() + 1
}

// sortKVs sorts what is in the order of its keys.
func sortKVs(by clientv3.SortOption, kvs []*mvccpb.KeyValue) {
	descend := by.Order == clientv3.SortDescend
	if by.Target == clientv3.SortByKey && !descend {
		return
	}
	slices.SortStableFunc(kvs, func(a, b *mvccpb.KeyValue) int {
		if descend {
			a, b = b, a
		}
		switch by.Target {
		case clientv3.SortByVersion:
			return cmp.Compare(a.Version, b.Version)
		case clientv3.SortByCreateRevision:
			return cmp.Compare(a.CreateRevision, b.CreateRevision)
		case clientv3.SortByModRevision:
			return cmp.Compare(a.ModRevision, b.ModRevision)
		case clientv3.SortByValue:
			return bytes.Compare(a.Value, b.Value)
		default:
			return bytes.Compare(a.Key, b.Key)
		}
	})
}
