package fakeetcd

import (
	"errors"
	"slices"
	"time"

	"go.etcd.io/etcd/api/v3/authpb"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/quorate/quorate/clientv3/mock/fakeetcd/internal/keyrange"
)

// The texts of etcd's refusals, verbatim: clients see only the text.
var (
	errEmptyRange  = errors.New("mvcc: watcher range is empty")
	errDuplicateID = errors.New("mvcc: duplicate watch ID provided on the WatchStream")

	// errChosenID is kine's.
	errChosenID = errors.New("rpc error: code = InvalidArgument desc = etcdserver: unsupported options in watch request")
)

func (ws *watchStream) create(r *pb.WatchCreateRequest) error {
	if len(r.Key) == 0 {
		// The empty key means the smallest that exists.
		r.Key = []byte{0}
	}
	if ws.options.Kine {
		return ws.createAsKine(r)
	}
	if reason := ws.refuse(r); reason != nil {
		return ws.send(refusal(reason.Error()))
	}
	return ws.start(r, ws.chooseID(r.WatchId))
}

func (ws *watchStream) createAsKine(r *pb.WatchCreateRequest) error {
	if r.WatchId != 0 {
		return ws.send(refusal(errChosenID.Error()))
	}
	if r.StartRevision < 0 {
		return ws.send(refusal(rpctypes.ErrCompacted.Error()))
	}
	r.PrevKv = true
	return ws.start(r, ws.call.cluster.kineIDs.Add(1))
}

// start begins an accepted watch, and confirms it to the client.
func (ws *watchStream) start(r *pb.WatchCreateRequest, id int64) error {
	header := ws.call.header(0)
	ws.watchers[id] = newWatcher(r, id, header.Revision)
	return ws.send(&pb.WatchResponse{Header: header, WatchId: id, Created: true})
}

func refusal(reason string) *pb.WatchResponse {
	return &pb.WatchResponse{WatchId: noWatcher, Created: true, Canceled: true, CancelReason: reason}
}

// refuse returns why a watcher cannot be created, nil if it can.
func (ws *watchStream) refuse(r *pb.WatchCreateRequest) error {
	if err := ws.refuseCaller(r); err != nil {
		return err
	}
	if keyrange.Of(r.Key, r.RangeEnd).Empty() {
		return errEmptyRange
	}
	if r.WatchId != 0 && ws.watchers[r.WatchId] != nil {
		return errDuplicateID
	}
	return nil
}

// refuseCaller returns the refusals common to server and proxy.
func (ws *watchStream) refuseCaller(r *pb.WatchCreateRequest) error {
	if r.StartRevision < 0 {
		return rpctypes.ErrCompacted
	}
	ws.call.cluster.mu.Lock()
	defer ws.call.cluster.mu.Unlock()
	return ws.call.permit(authpb.Permission_READ, r.Key, r.RangeEnd)
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

// pipelineDelay is how long a proxy waits for further creates before it answers. A
// client that pipelines has sent them by then.
const pipelineDelay = 5 * time.Millisecond

// proxyCreate is a create that a proxy has not answered yet.
type proxyCreate struct {
	request *pb.WatchCreateRequest
	id      int64
}

// pipe queues a create. All are answered when pipelineDelay has passed since the last one.
func (ws *watchStream) pipe(r *pb.WatchCreateRequest) {
	ws.piped = append(ws.piped, proxyCreate{r, ws.newProxyID(r)})
	ws.answer.Reset(pipelineDelay)
}

// newProxyID returns the ID of the next watch that a proxy accepts. Refused creates
// use no ID.
func (ws *watchStream) newProxyID(r *pb.WatchCreateRequest) int64 {
	if ws.refuseCaller(r) != nil || keyrange.Of(r.Key, r.RangeEnd).Empty() {
		return noWatcher
	}
	ws.nextID++
	return ws.nextID - 1
}

// answerPipeline answers the last create first.
func (ws *watchStream) answerPipeline() error {
	creates := ws.piped
	ws.piped = nil
	for _, c := range slices.Backward(creates) {
		if err := ws.answerAsProxy(c); err != nil {
			return err
		}
	}
	return nil
}

func (ws *watchStream) answerAsProxy(c proxyCreate) error {
	if c.id != noWatcher {
		return ws.start(c.request, c.id)
	}
	reason := ""
	if err := ws.refuseCaller(c.request); err != nil {
		reason = rpctypes.Error(err).Error()
	}
	resp := refusal(reason)
	resp.Header = &pb.ResponseHeader{} // a proxy sends no fields here
	return ws.send(resp)
}
