package fakeetcd

import (
	"errors"

	"go.etcd.io/etcd/api/v3/authpb"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/quorate/quorate/clientv3/internal/semantics"
)

// The texts of etcd's refusals, verbatim: clients see only the text.
var (
	errEmptyRange  = errors.New("mvcc: watcher range is empty")
	errDuplicateID = errors.New("mvcc: duplicate watch ID provided on the WatchStream")

	// errChosenID is kine's refusal of a watch ID that the client chose.
	errChosenID = errors.New("rpc error: code = InvalidArgument desc = etcdserver: unsupported options in watch request")
)

func (ws *watchStream) create(r *pb.WatchCreateRequest) error {
	if len(r.Key) == 0 {
		// The empty key means the smallest that exists.
		r.Key = []byte{0}
	}
	if reason := ws.refuse(r); reason != nil {
		return ws.send(&pb.WatchResponse{WatchId: noWatcher, Created: true, Canceled: true, CancelReason: reason.Error()})
	}
	id := ws.chooseID(r.WatchId)
	if ws.options.Kine {
		id, r.PrevKv = ws.call.cluster.kineIDs.Add(1), true
	}
	header := ws.call.header(0)
	ws.watchers[id] = newWatcher(r, id, header.Revision)
	return ws.send(&pb.WatchResponse{Header: header, WatchId: id, Created: true})
}

// refuse returns why a watcher cannot be created, nil if it can.
func (ws *watchStream) refuse(r *pb.WatchCreateRequest) error {
	if ws.options.Kine && r.WatchId != 0 {
		return errChosenID
	}
	if r.StartRevision < 0 {
		return rpctypes.ErrCompacted
	}
	ws.call.cluster.mu.Lock()
	defer ws.call.cluster.mu.Unlock()
	if err := ws.call.permit(authpb.Permission_READ, r.Key, r.RangeEnd); err != nil {
		return err
	}
	if semantics.Of(r.Key, r.RangeEnd).Empty() {
		return errEmptyRange
	}
	if r.WatchId != 0 && ws.watchers[r.WatchId] != nil {
		return errDuplicateID
	}
	return nil
}

// chooseID returns the client's chosen ID, or for 0 the next free one.
func (ws *watchStream) chooseID(want int64) int64 {
	if want != 0 {
		return want
	}
	for ws.watchers[ws.nextID] != nil {
		ws.nextID++
	}
	ws.nextID++
	return ws.nextID - 1
}
