package quorate

import (
	"context"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/metadata"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/lab/robustness/history"
)

// recordingWatcher is a clientv3.Watcher that records the last request and answers with a script.
type recordingWatcher struct {
	clientv3.Watcher
	leader  bool
	op      clientv3.Op
	answers []clientv3.WatchResponse
}

func (a *recordingWatcher) Watch(ctx context.Context, key string, opts ...clientv3.OpOption) clientv3.WatchChan {
	md, _ := metadata.FromOutgoingContext(ctx)
	a.leader = len(md.Get(rpctypes.MetadataRequireLeaderKey)) > 0
	a.op = clientv3.OpGet(key, opts...)
	ch := make(chan clientv3.WatchResponse, len(a.answers))
	for _, resp := range a.answers {
		ch <- resp
	}
	close(ch)
	return ch
}

func TestWatcherPassesTheRequestOn(t *testing.T) {
	a := &recordingWatcher{}
	c := Client{&clientv3.Client{Watcher: a}}
	c.Watch(t.Context(), history.WatchRequest{Key: "a", StartRevision: 7})
	assert.Equal(t, "a", string(a.op.KeyBytes()))
	assert.Empty(t, a.op.RangeBytes())
	assert.EqualValues(t, 7, a.op.Rev())
	assert.False(t, a.leader)

	c.Watch(t.Context(), history.WatchRequest{Key: "a", RangeEnd: "b", RequireLeader: true})
	assert.Equal(t, "b", string(a.op.RangeBytes()))
	assert.Zero(t, a.op.Rev())
	assert.True(t, a.leader)

	for _, tt := range []struct {
		req history.WatchRequest
		set func(clientv3.Op) bool
	}{
		{history.WatchRequest{Key: "a", PrevKV: true}, clientv3.Op.IsPrevKV},
		{history.WatchRequest{Key: "a", ProgressNotify: true}, clientv3.Op.IsProgressNotify},
		{history.WatchRequest{Key: "a", CreatedNotify: true}, clientv3.Op.IsCreatedNotify},
		{history.WatchRequest{Key: "a", Fragment: true}, clientv3.Op.IsFragment},
		{history.WatchRequest{Key: "a", NoPut: true}, clientv3.Op.IsFilterPut},
		{history.WatchRequest{Key: "a", NoDelete: true}, clientv3.Op.IsFilterDelete},
	} {
		c.Watch(t.Context(), tt.req)
		assert.True(t, tt.set(a.op), tt.req.String())
		c.Watch(t.Context(), history.WatchRequest{Key: "a"})
		assert.False(t, tt.set(a.op), tt.req.String())
	}
}

func TestWatcherPassesResponsesOn(t *testing.T) {
	put := &mvccpb.KeyValue{Key: []byte("k"), Value: []byte("v"), CreateRevision: 2, ModRevision: 3, Version: 2, Lease: 9}
	a := &recordingWatcher{answers: []clientv3.WatchResponse{
		{Header: &pb.ResponseHeader{Revision: 2}, Created: true},
		{Header: &pb.ResponseHeader{Revision: 4}, Events: []*clientv3.Event{
			{Type: clientv3.EventTypePut, Kv: put},
			{Type: clientv3.EventTypeDelete, Kv: &mvccpb.KeyValue{Key: []byte("k"), ModRevision: 4}, PrevKv: put},
		}},
		{Header: &pb.ResponseHeader{Revision: 5}, Canceled: true, CompactRevision: 5},
	}}
	known := history.KeyValue{Key: "k", Value: "v", CreateRevision: 2, ModRevision: 3, Version: 2, Lease: 9}
	assert.Equal(t, []history.WatchResponse{
		{Revision: 2, Created: true},
		{Revision: 4, Events: []history.Event{
			{KeyValue: known},
			{Type: history.DeleteEvent, KeyValue: history.KeyValue{Key: "k", ModRevision: 4}, Prev: &known},
		}},
		{Revision: 5, Canceled: true, CompactRevision: 5, Err: rpctypes.ErrCompacted},
	}, slices.Collect(Client{&clientv3.Client{Watcher: a}}.Watch(t.Context(), history.WatchRequest{Key: "k"})))
}
