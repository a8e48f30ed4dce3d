package watch

import (
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
)

// Request describes a caller's watch.
type Request struct {
	// Key and End are the range, as etcd encodes it.
	Key, End []byte
	// Rev is the first revision to deliver; 0 means from now on.
	Rev int64
	// Filters are the kinds of events to exclude.
	Filters []pb.WatchCreateRequest_FilterType
	// PrevKV, Fragment and ProgressNotify are sent to the server.
	PrevKV, Fragment, ProgressNotify bool
	// CreatedNotify asks for a response when the watch is created.
	CreatedNotify bool
	// LogSlowReader logs when responses wait long for their reader.
	LogSlowReader bool
}

// Response is one response to the caller.
type Response struct {
	Header          *pb.ResponseHeader // never nil for the caller
	Events          []*mvccpb.Event
	Created         bool
	Canceled        bool
	CompactRevision int64
	CancelReason    string
	// Proven marks Created and progress responses of a server with reliable progress,
	// see session.splittable.
	Proven bool
	// Err is why the server refused the watch, or why the client ended it.
	Err error
}

// eventOverhead is the memory of an event besides its keys and values: two structs,
// their pointers and slices.
const eventOverhead = 256

// size estimates the memory of the response in bytes.
func (r *Response) size() int {
	n := eventOverhead
	for _, ev := range r.Events {
		n += eventSize(ev)
	}
	return n
}

func eventSize(ev *mvccpb.Event) int {
	n := eventOverhead + len(ev.GetKv().GetKey()) + len(ev.GetKv().GetValue())
	if prev := ev.GetPrevKv(); prev != nil {
		n += eventOverhead + len(prev.GetKey()) + len(prev.GetValue())
	}
	return n
}

// create returns the create request with the given id, from rev on.
func (r *Request) create(id, rev int64) *pb.WatchRequest {
	return &pb.WatchRequest{RequestUnion: &pb.WatchRequest_CreateRequest{CreateRequest: &pb.WatchCreateRequest{
		WatchId:        id,
		Key:            r.Key,
		RangeEnd:       r.End,
		StartRevision:  rev,
		Filters:        r.Filters,
		PrevKv:         r.PrevKV,
		Fragment:       r.Fragment,
		ProgressNotify: r.ProgressNotify,
	}}}
}

func cancelRequest(id int64) *pb.WatchRequest {
	return &pb.WatchRequest{RequestUnion: &pb.WatchRequest_CancelRequest{
		CancelRequest: &pb.WatchCancelRequest{WatchId: id},
	}}
}

func progressRequest() *pb.WatchRequest {
	return &pb.WatchRequest{RequestUnion: &pb.WatchRequest_ProgressRequest{
		ProgressRequest: &pb.WatchProgressRequest{},
	}}
}
