package store

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/quorate/quorate/clientv3/mock/fakeetcd/internal/keyrange"
)

func mustPut(t *testing.T, s *Store, key, value string) int64 {
	t.Helper()
	resp, err := s.Put(&pb.PutRequest{Key: []byte(key), Value: []byte(value)})
	require.NoError(t, err)
	return resp.Header.Revision
}

func mustDelete(t *testing.T, s *Store, key, end string) int64 {
	t.Helper()
	resp, err := s.DeleteRange(&pb.DeleteRangeRequest{Key: []byte(key), RangeEnd: []byte(end)})
	require.NoError(t, err)
	return resp.Header.Revision
}

func mustRange(t *testing.T, s *Store, r *pb.RangeRequest) *pb.RangeResponse {
	t.Helper()
	resp, err := s.Range(r)
	require.NoError(t, err)
	return resp
}

// keysOf formats kvs as "k=v k=v".
func keysOf(kvs []*mvccpb.KeyValue) string {
	var out []string
	for _, kv := range kvs {
		out = append(out, string(kv.Key)+"="+string(kv.Value))
	}
	return strings.Join(out, " ")
}

func kv(key, value string, create, mod, version int64) *mvccpb.KeyValue {
	return &mvccpb.KeyValue{Key: []byte(key), Value: []byte(value), CreateRevision: create, ModRevision: mod, Version: version}
}

func TestRevisionsAndVersions(t *testing.T) {
	s := New()
	assert.EqualValues(t, 1, s.Revision())
	assert.EqualValues(t, 2, mustPut(t, s, "k", "a"))
	assert.EqualValues(t, 3, mustPut(t, s, "k", "b"))
	assert.Empty(t, cmp.Diff(kv("k", "b", 2, 3, 2), s.Get("k"), protocmp.Transform()))
	assert.EqualValues(t, 3, mustDelete(t, s, "absent", ""), "deleting no key makes no revision")
	assert.EqualValues(t, 4, mustDelete(t, s, "k", ""))
	assert.Nil(t, s.Get("k"))
	assert.EqualValues(t, 5, mustPut(t, s, "k", "c"))
	assert.Empty(t, cmp.Diff(kv("k", "c", 5, 5, 1), s.Get("k"), protocmp.Transform()))
	assert.Equal(t, 3, s.PutCount("k"))

	old := mustRange(t, s, &pb.RangeRequest{Key: []byte("k"), Revision: 2})
	assert.Empty(t, cmp.Diff(kv("k", "a", 2, 2, 1), old.Kvs[0], protocmp.Transform()))
	assert.EqualValues(t, 5, old.Header.Revision)
	assert.Empty(t, mustRange(t, s, &pb.RangeRequest{Key: []byte("k"), Revision: 4}).Kvs)
}

func TestRange(t *testing.T) {
	s := New()
	mustPut(t, s, "a", "3")
	mustPut(t, s, "b", "2")
	mustPut(t, s, "c", "1")
	mustPut(t, s, "a", "4")
	tests := []struct {
		name  string
		req   *pb.RangeRequest
		want  string
		count int64
		more  bool
	}{
		{"one key", &pb.RangeRequest{Key: []byte("b")}, "b=2", 1, false},
		{"absent", &pb.RangeRequest{Key: []byte("x")}, "", 0, false},
		{"half-open", &pb.RangeRequest{Key: []byte("a"), RangeEnd: []byte("c")}, "a=4 b=2", 2, false},
		{"from key", &pb.RangeRequest{Key: []byte("b"), RangeEnd: []byte{0}}, "b=2 c=1", 2, false},
		{"all", &pb.RangeRequest{Key: []byte{0}, RangeEnd: []byte{0}}, "a=4 b=2 c=1", 3, false},
		{"limit", &pb.RangeRequest{Key: []byte{0}, RangeEnd: []byte{0}, Limit: 2}, "a=4 b=2", 3, true},
		{"limit not reached", &pb.RangeRequest{Key: []byte{0}, RangeEnd: []byte{0}, Limit: 3}, "a=4 b=2 c=1", 3, false},
		{"count only", &pb.RangeRequest{Key: []byte{0}, RangeEnd: []byte{0}, CountOnly: true}, "", 3, false},
		{"keys only", &pb.RangeRequest{Key: []byte{0}, RangeEnd: []byte{0}, KeysOnly: true}, "a= b= c=", 3, false},
		{"descending", &pb.RangeRequest{Key: []byte{0}, RangeEnd: []byte{0}, SortOrder: pb.RangeRequest_DESCEND}, "c=1 b=2 a=4", 3, false},
		{"by value", &pb.RangeRequest{Key: []byte{0}, RangeEnd: []byte{0}, SortTarget: pb.RangeRequest_VALUE}, "c=1 b=2 a=4", 3, false},
		{"by mod", &pb.RangeRequest{Key: []byte{0}, RangeEnd: []byte{0}, SortTarget: pb.RangeRequest_MOD}, "b=2 c=1 a=4", 3, false},
		{
			"by version, limited after sorting",
			&pb.RangeRequest{
				Key: []byte{0}, RangeEnd: []byte{0}, Limit: 1,
				SortTarget: pb.RangeRequest_VERSION, SortOrder: pb.RangeRequest_DESCEND,
			},
			"a=4", 3, true,
		},
		{
			"by value without an order, limited before sorting",
			&pb.RangeRequest{Key: []byte{0}, RangeEnd: []byte{0}, Limit: 1, SortTarget: pb.RangeRequest_VALUE}, "b=2", 3, true,
		},
		{"by create, newest first", &pb.RangeRequest{
			Key: []byte{0}, RangeEnd: []byte{0}, SortTarget: pb.RangeRequest_CREATE, SortOrder: pb.RangeRequest_DESCEND,
		}, "c=1 b=2 a=4", 3, false},
		{"mod bounds", &pb.RangeRequest{Key: []byte{0}, RangeEnd: []byte{0}, MinModRevision: 3, MaxModRevision: 4}, "b=2 c=1", 3, false},
		{"create bounds", &pb.RangeRequest{Key: []byte{0}, RangeEnd: []byte{0}, MaxCreateRevision: 2}, "a=4", 3, false},
		{"in the past", &pb.RangeRequest{Key: []byte{0}, RangeEnd: []byte{0}, Revision: 3}, "a=3 b=2", 2, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			resp := mustRange(t, s, tt.req)
			assert.Equal(t, tt.want, keysOf(resp.Kvs))
			assert.Equal(t, tt.count, resp.Count)
			assert.Equal(t, tt.more, resp.More)
			assert.EqualValues(t, 5, resp.Header.Revision)
		})
	}
}

func TestPutOptions(t *testing.T) {
	s := New()
	_, err := s.LeaseGrant(&pb.LeaseGrantRequest{ID: 7, TTL: 60})
	require.NoError(t, err)
	_, err = s.Put(&pb.PutRequest{Key: []byte("k"), Value: []byte("a"), Lease: 7})
	require.NoError(t, err)

	resp, err := s.Put(&pb.PutRequest{Key: []byte("k"), Lease: 7, IgnoreValue: true, PrevKv: true})
	require.NoError(t, err)
	assert.EqualValues(t, 1, resp.PrevKv.Version)
	assert.Equal(t, "a", string(s.Get("k").Value))

	_, err = s.Put(&pb.PutRequest{Key: []byte("k"), Value: []byte("b"), IgnoreLease: true})
	require.NoError(t, err)
	assert.EqualValues(t, 7, s.Get("k").Lease)
	assert.Equal(t, []string{"k"}, s.LeaseKeys(7))

	mustPut(t, s, "k", "c")
	assert.Zero(t, s.Get("k").Lease, "a put without a lease takes the key off it")
	assert.Empty(t, s.LeaseKeys(7))
}

func TestDeleteRange(t *testing.T) {
	s := New()
	mustPut(t, s, "a", "1")
	mustPut(t, s, "b", "2")
	mustPut(t, s, "c", "3")
	resp, err := s.DeleteRange(&pb.DeleteRangeRequest{Key: []byte("a"), RangeEnd: []byte("c"), PrevKv: true})
	require.NoError(t, err)
	assert.EqualValues(t, 2, resp.Deleted)
	assert.Equal(t, "a=1 b=2", keysOf(resp.PrevKvs))
	assert.EqualValues(t, 5, resp.Header.Revision, "one revision for all keys")
}

func TestErrors(t *testing.T) {
	s := New()
	mustPut(t, s, "k", "a")
	mustPut(t, s, "k", "b")
	_, err := s.Compact(&pb.CompactionRequest{Revision: 3})
	require.NoError(t, err)
	_, err = s.LeaseGrant(&pb.LeaseGrantRequest{ID: 7, TTL: 60})
	require.NoError(t, err)

	key := []byte("k")
	putOf := func(r *pb.PutRequest) func() error { return func() error { _, err := s.Put(r); return err } }
	rangeOf := func(r *pb.RangeRequest) func() error { return func() error { _, err := s.Range(r); return err } }
	grantOf := func(r *pb.LeaseGrantRequest) func() error {
		return func() error { _, err := s.LeaseGrant(r); return err }
	}
	compactAt := func(rev int64) func() error {
		return func() error { _, err := s.Compact(&pb.CompactionRequest{Revision: rev}); return err }
	}
	tests := []struct {
		name string
		call func() error
		want error
	}{
		{"range: no key", rangeOf(&pb.RangeRequest{}), rpctypes.ErrGRPCEmptyKey},
		{"range: bad order", rangeOf(&pb.RangeRequest{Key: key, SortOrder: 9}), rpctypes.ErrGRPCInvalidSortOption},
		{"range: bad target", rangeOf(&pb.RangeRequest{Key: key, SortTarget: 9}), rpctypes.ErrGRPCInvalidSortOption},
		{"range: compacted", rangeOf(&pb.RangeRequest{Key: key, Revision: 2}), rpctypes.ErrGRPCCompacted},
		{"range: at the compaction", rangeOf(&pb.RangeRequest{Key: key, Revision: 3}), nil},
		{"range: future", rangeOf(&pb.RangeRequest{Key: key, Revision: 4}), rpctypes.ErrGRPCFutureRev},
		{"put: no key", putOf(&pb.PutRequest{}), rpctypes.ErrGRPCEmptyKey},
		{"put: value beside ignore_value", putOf(&pb.PutRequest{Key: key, Value: key, IgnoreValue: true}), rpctypes.ErrGRPCValueProvided},
		{"put: lease beside ignore_lease", putOf(&pb.PutRequest{Key: key, Lease: 7, IgnoreLease: true}), rpctypes.ErrGRPCLeaseProvided},
		{"put: unknown lease", putOf(&pb.PutRequest{Key: key, Lease: 8}), rpctypes.ErrGRPCLeaseNotFound},
		{"put: ignore_value without a key", putOf(&pb.PutRequest{Key: []byte("x"), IgnoreValue: true}), rpctypes.ErrGRPCKeyNotFound},
		{"delete: no key", func() error { _, err := s.DeleteRange(&pb.DeleteRangeRequest{}); return err }, rpctypes.ErrGRPCEmptyKey},
		{"compact: again", compactAt(3), rpctypes.ErrGRPCCompacted},
		{"compact: future", compactAt(4), rpctypes.ErrGRPCFutureRev},
		{"hash: compacted", func() error { _, err := s.HashKV(&pb.HashKVRequest{Revision: 2}); return err }, rpctypes.ErrGRPCCompacted},
		{"grant: taken", grantOf(&pb.LeaseGrantRequest{ID: 7, TTL: 60}), rpctypes.ErrGRPCLeaseExist},
		{"grant: too long", grantOf(&pb.LeaseGrantRequest{TTL: maxLeaseTTL + 1}), rpctypes.ErrGRPCLeaseTTLTooLarge},
		{"revoke: unknown", func() error { _, err := s.LeaseRevoke(&pb.LeaseRevokeRequest{ID: 8}); return err }, rpctypes.ErrGRPCLeaseNotFound},
	}
	for _, tt := range tests {
		assert.Equal(t, tt.want, tt.call(), tt.name)
	}
	assert.EqualValues(t, 3, s.Revision(), "a failed request writes nothing")
}

func TestLeases(t *testing.T) {
	s := New()
	own, err := s.LeaseGrant(&pb.LeaseGrantRequest{ID: 7, TTL: 1})
	require.NoError(t, err)
	assert.EqualValues(t, minLeaseTTL, own.TTL, "short TTLs are raised")
	chosen, err := s.LeaseGrant(&pb.LeaseGrantRequest{TTL: 60})
	require.NoError(t, err)
	assert.Positive(t, chosen.ID)
	var ids []int64
	for _, l := range s.LeaseLeases().Leases {
		ids = append(ids, l.ID)
	}
	assert.Equal(t, []int64{7, chosen.ID}, ids)

	for _, k := range []string{"b", "a"} {
		_, err := s.Put(&pb.PutRequest{Key: []byte(k), Lease: 7})
		require.NoError(t, err)
	}
	ttl := s.LeaseTimeToLive(&pb.LeaseTimeToLiveRequest{ID: 7, Keys: true})
	assert.EqualValues(t, 2, ttl.TTL)
	assert.Equal(t, [][]byte{[]byte("a"), []byte("b")}, ttl.Keys)
	assert.EqualValues(t, 2, s.LeaseRenew(&pb.LeaseKeepAliveRequest{ID: 7}).TTL)

	revoked, err := s.LeaseRevoke(&pb.LeaseRevokeRequest{ID: 7})
	require.NoError(t, err)
	assert.EqualValues(t, 4, revoked.Header.Revision, "the keys are deleted at one revision")
	assert.Nil(t, s.Get("a"))
	assert.EqualValues(t, -1, s.LeaseTimeToLive(&pb.LeaseTimeToLiveRequest{ID: 7}).TTL)
	assert.Zero(t, s.LeaseRenew(&pb.LeaseKeepAliveRequest{ID: 7}).TTL)
}

func TestEvents(t *testing.T) {
	s := New()
	changed := s.Changed()
	mustPut(t, s, "a", "1")
	<-changed
	mustPut(t, s, "b", "1")
	mustPut(t, s, "a", "2")
	mustDelete(t, s, "a", "")

	all := s.Events(Query{Keys: keyrange.Of([]byte("a"), nil), PrevKV: true})
	want := []*mvccpb.Event{
		{Type: mvccpb.Event_PUT, Kv: kv("a", "1", 2, 2, 1)},
		{Type: mvccpb.Event_PUT, Kv: kv("a", "2", 2, 4, 2), PrevKv: kv("a", "1", 2, 2, 1)},
		{Type: mvccpb.Event_DELETE, Kv: &mvccpb.KeyValue{Key: []byte("a"), ModRevision: 5}, PrevKv: kv("a", "2", 2, 4, 2)},
	}
	assert.Empty(t, cmp.Diff(Events{Events: want, Revision: 5}, all, protocmp.Transform()))

	_, err := s.Compact(&pb.CompactionRequest{Revision: 4})
	require.NoError(t, err)
	assert.Equal(t, Events{Revision: 5, Compacted: 4}, s.Events(Query{Keys: keyrange.Of([]byte("a"), nil), From: 3}))
	assert.Len(t, s.Events(Query{Keys: keyrange.Of([]byte("a"), nil), From: 3, Compacted: true}).Events, 2)
	assert.Len(t, s.Events(Query{Keys: keyrange.Of([]byte("a"), nil), From: 4, PrevKV: true}).Events, 2)
}

// A limit counts only revisions with a matching change.
func TestEventsLimit(t *testing.T) {
	s := New()
	for _, key := range []string{"a", "b", "a"} {
		mustPut(t, s, key, "v")
	}
	_, err := s.Txn(&pb.TxnRequest{Success: []*pb.RequestOp{
		{Request: &pb.RequestOp_RequestPut{RequestPut: &pb.PutRequest{Key: []byte("a")}}},
		{Request: &pb.RequestOp_RequestPut{RequestPut: &pb.PutRequest{Key: []byte("aa")}}},
	}})
	require.NoError(t, err)
	keys := keyrange.Of([]byte("a"), []byte("b"))
	for _, tt := range []struct {
		from         int64
		limit, count int
		more         int64
	}{
		{from: 0, limit: 0, count: 4},
		{from: 0, limit: 1, count: 1, more: 4},
		{from: 0, limit: 2, count: 2, more: 5},
		{from: 3, limit: 1, count: 1, more: 5},
		{from: 5, limit: 1, count: 2},
		{from: 0, limit: 3, count: 4},
		{from: 6, limit: 1, count: 0},
	} {
		found := s.Events(Query{Keys: keys, From: tt.from, Limit: tt.limit})
		assert.Len(t, found.Events, tt.count, "%+v", tt)
		assert.Equal(t, tt.more, found.More, "%+v", tt)
	}
}

func TestCompactKeepsWhatIsVisible(t *testing.T) {
	s := New()
	mustPut(t, s, "gone", "1")
	mustPut(t, s, "kept", "1")
	mustDelete(t, s, "gone", "")
	before := mustRange(t, s, &pb.RangeRequest{Key: []byte{0}, RangeEnd: []byte{0}})
	hash, err := s.HashKV(&pb.HashKVRequest{})
	require.NoError(t, err)
	assert.EqualValues(t, -1, hash.CompactRevision)

	_, err = s.Compact(&pb.CompactionRequest{Revision: 4})
	require.NoError(t, err)
	after := mustRange(t, s, &pb.RangeRequest{Key: []byte{0}, RangeEnd: []byte{0}})
	assert.Empty(t, cmp.Diff(before, after, protocmp.Transform()))
	assert.NotContains(t, s.keys, "gone")
	same, err := s.HashKV(&pb.HashKVRequest{})
	require.NoError(t, err)
	assert.Equal(t, hash.Hash, same.Hash)
	assert.EqualValues(t, 4, same.CompactRevision)
}

// Changing a result changes neither the store nor other results.
func TestNoAliasing(t *testing.T) {
	s := New()
	value := []byte("v")
	_, err := s.Put(&pb.PutRequest{Key: []byte("k"), Value: value})
	require.NoError(t, err)
	value[0] = 'x'
	mustRange(t, s, &pb.RangeRequest{Key: []byte("k")}).Kvs[0].Value[0] = 'x'
	s.Get("k").Value[0] = 'x'
	assert.Equal(t, "v", string(s.Get("k").Value))
}
