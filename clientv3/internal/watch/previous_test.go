package watch

import (
	"testing"

	"github.com/stretchr/testify/assert"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
)

func TestFirstEventsWithoutPreviousKeyValues(t *testing.T) {
	bare := happened
	full := func(id int64, revs ...int64) *pb.WatchResponse {
		r := happened(id, revs...)
		for _, ev := range r.Events {
			ev.PrevKv = &mvccpb.KeyValue{Key: []byte("k"), ModRevision: 1}
		}
		return r
	}
	creates := func(id int64, revs ...int64) *pb.WatchResponse {
		r := happened(id, revs...)
		for _, ev := range r.Events {
			ev.Kv.CreateRevision = ev.GetKv().GetModRevision()
		}
		return r
	}
	deletes := func(id int64, revs ...int64) *pb.WatchResponse {
		r := creates(id, revs...)
		for _, ev := range r.Events {
			ev.Type = mvccpb.Event_DELETE
		}
		return r
	}
	for _, tt := range []struct {
		name  string
		heard []*pb.WatchResponse
		sent  []string
		was   []string
	}{
		{"they come again", []*pb.WatchResponse{bare(1, 11, 12), created(2, 12), full(2, 11, 12)}, []string{"cancel 1", "create 2 from 11"}, []string{"created", "created", "events [11 12]"}},
		{"of deletes", []*pb.WatchResponse{deletes(1, 11), created(2, 12), full(2, 11)}, []string{"cancel 1", "create 2 from 11"}, []string{"created", "created", "events [11]"}},
		{"in fragments", []*pb.WatchResponse{fragment(1, 11), bare(1, 12), created(2, 12), full(2, 11, 12)}, []string{"cancel 1", "create 2 from 11"}, []string{"created", "created", "events [11 12]"}},
		{"again: they are compacted", []*pb.WatchResponse{bare(1, 11), created(2, 12), bare(2, 11)}, []string{"cancel 1", "create 2 from 11"}, []string{"created", "created", "events [11]"}},
		{"later: they are compacted", []*pb.WatchResponse{full(1, 11), bare(1, 12)}, nil, []string{"created", "events [11]", "events [12]"}},
		{"of keys that are created", []*pb.WatchResponse{creates(1, 11)}, nil, []string{"created", "events [11]"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			sc := connected(t)
			f := &follower{}
			f.sub = newSubscription(&Request{Key: []byte("k"), PrevKV: true}, f, 0)
			sc.ss.add(f.sub)
			sc.receives(created(1, 10))
			sc.ss.take()
			sc.receives(tt.heard...)
			sc.sends(tt.sent...)
			assert.Equal(t, tt.was, f.was())
		})
	}
}

// A server that forgets them after each reconnect is asked again after each.
func TestFirstEventsWithoutPreviousKeyValuesAfterReconnects(t *testing.T) {
	sc := connected(t)
	f := &follower{}
	f.sub = newSubscription(&Request{Key: []byte("k"), PrevKV: true}, f, 0)
	sc.ss.add(f.sub)
	sc.receives(created(1, 10), happened(1, 11), created(2, 12))
	full := happened(2, 11)
	full.Events[0].PrevKv = &mvccpb.KeyValue{ModRevision: 1}
	sc.receives(full)
	sc.reconnect()
	sc.sends("create 3 from 12")
	sc.receives(created(3, 12), happened(3, 12))
	sc.sends("cancel 3", "create 4 from 12")
}
