package watch

import (
	"slices"

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

type state uint8

const (
	// parked: not on the stream.
	parked state = iota
	// queued: to be created; no request sent yet.
	queued
	// asked: the create request is in flight.
	asked
	// live: the server has created it.
	live
)

// subscription is one watcher on a server, existing or wanted. It outlives streams:
// the events it has accepted decide where the next stream resumes.
type subscription struct {
	req   *Request
	owner owner

	state state
	// unconfirmed counts the progress responses for all watchers that may have been in
	// flight before the server created this one, see progressForAll. progressPending
	// reports that its caller requested one of them.
	unconfirmed     uint8
	progressPending bool
	noPrevKV        bool  // since the server created it, no event had a previous key-value
	repeated        bool  // it was created again for previous key-values, see session.repeat
	priorRequests   int32 // progress requests on the stream before the create

	id      int64 // on the stream: chosen by the session or the server
	next    int64 // the first revision not accepted yet; 0 if unknown
	created int64 // the store's revision when the server created it, or later
	// assembly is the response that is arriving in fragments, nil if none is. It stays set
	// while the owner receives the last of its events.
	assembly *assembly
}

// assembly is a response that arrives in fragments.
type assembly struct {
	rest     []*mvccpb.Event // not passed on: they are merged, or the next fragment may continue their revision
	held     int             // the size of rest, in bytes
	passed   bool            // a part was passed on: the rest is not merged
	complete bool            // the last fragment has arrived
	extent   extent          // of what has arrived
}

// owner receives the events of a subscription. The session calls it; its methods
// may add and remove subscriptions.
type owner interface {
	// created: the server created it. Called once for each stream.
	created(*subscription, *pb.ResponseHeader)
	// refused: the server did not create it. It is parked.
	refused(*subscription, *pb.WatchResponse)
	// events: the next events, complete revisions, without duplicates. A response in
	// fragments gives several calls.
	events(*subscription, *pb.ResponseHeader, []*mvccpb.Event)
	// progress: everything up to the header's revision has been accepted. With
	// notify, callers receive it.
	progress(s *subscription, h *pb.ResponseHeader, notify bool)
	// canceled: the server ended it. It is parked.
	canceled(*subscription, *pb.WatchResponse)
	// assembles: the bytes held of an incomplete response have grown by bytes, which is
	// negative if they have shrunk. mergeable returns how many may be held.
	assembles(bytes int)
	mergeable() int
}

func newSubscription(req *Request, o owner, next int64, progressPending bool) *subscription {
	return &subscription{req: req, owner: o, next: next, progressPending: progressPending}
}

// become changes the state. What has arrived of a response in fragments is lost with the stream.
func (s *subscription) become(to state) {
	if to != live {
		s.endAssembly()
	}
	s.state = to
}

// accept processes a batch of events and returns those that are new, in whole revisions.
func (s *subscription) accept(resp *pb.WatchResponse) []*mvccpb.Event {
	events := resp.Events
	if resp.Fragment || s.assembly != nil {
		events = s.assemble(resp)
	}
	for len(events) > 0 {
		if rev := events[0].GetKv().GetModRevision(); rev >= s.next || rev == 0 { // those of a mock may have revision 0
			break
		}
		events = events[1:]
	}
	if len(events) > 0 {
		s.next = max(s.next, events[len(events)-1].GetKv().GetModRevision()+1)
	}
	return events
}

// advance processes progress up to rev. It returns false for progress from before the
// start revision, which etcd sent before 3.4.31 and 3.5.13.
func (s *subscription) advance(rev int64) bool {
	if rev+1 < s.next {
		return false
	}
	s.next = rev + 1
	return true
}

// assemble adds a fragment. Fragments are merged, as the official client does, while they fit in
// what the owner may hold; otherwise it returns the events of the revisions that are complete.
func (s *subscription) assemble(resp *pb.WatchResponse) []*mvccpb.Event {
	if s.assembly == nil {
		s.assembly = new(assembly)
	}
	a := s.assembly
	a.extent.add(resp.Events)
	a.complete = !resp.Fragment
	events := slices.Concat(a.rest, resp.Events)
	if a.complete {
		s.hold(nil)
		return events
	}
	if !a.passed && a.held+extentOf(resp.Events).bytes <= s.owner.mergeable() {
		s.hold(events)
		return nil
	}
	a.passed = true
	end := len(events)
	for end > 0 && events[end-1].GetKv().GetModRevision() == a.extent.last {
		end--
	}
	s.hold(slices.Clone(events[end:]))
	return slices.Clone(events[:end]) // without the rest in memory behind it
}

// hold replaces the events that are not passed on.
func (s *subscription) hold(rest []*mvccpb.Event) {
	a, size := s.assembly, extentOf(rest).bytes
	if size != a.held {
		s.owner.assembles(size - a.held)
	}
	a.rest, a.held = rest, size
}

// endAssembly forgets the response that was arriving.
func (s *subscription) endAssembly() {
	if s.assembly != nil {
		s.hold(nil)
		s.assembly = nil
	}
}
