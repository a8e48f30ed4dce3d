package watch

import (
	"errors"
	"strings"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
)

// receive processes a response. An error means that the peer violated the protocol,
// and the stream must be reset.
func (ss *session) receive(resp *pb.WatchResponse) error {
	switch {
	case resp.Created:
		return ss.created(resp)
	case resp.WatchId == invalidID:
		ss.progressForAll(resp)
		return nil
	case resp.Canceled:
		ss.canceled(resp)
		return nil
	default:
		return ss.deliver(resp)
	}
}

// created matches a reply to the oldest create in flight.
func (ss *session) created(resp *pb.WatchResponse) error {
	refused := isRefused(resp)
	if !refused && ss.live[resp.WatchId] != nil {
		if ss.mode == serial {
			ss.serial = true
			return disorder("watch id %d was given twice", resp.WatchId)
		}
		return nil // a duplicate
	}
	if len(ss.pending) == 0 {
		return disorder("watch %d was created, which was not requested", resp.WatchId)
	}
	if refused && !ss.firstCreated && refusesID(resp) {
		ss.firstCreated = true
		ss.dropIDs()
		return nil
	}
	head := ss.pending[0]
	if !refused {
		if err := ss.chooseMode(head.id, resp.WatchId); err != nil {
			return err
		}
	}
	ss.firstCreated = true
	ss.pending = ss.pending[1:]
	if len(ss.pending) == 0 {
		ss.pending = nil
	}
	ss.endCreate(head.sub, resp, refused)
	ss.flush()
	return nil
}

// chooseMode derives from the first reply how the peer treats ids, and checks the
// further ones.
func (ss *session) chooseMode(want, got int64) error {
	switch ss.mode {
	case probing:
		ss.mode = pipelined
		if got != want {
			ss.mode = serial
		}
	case pipelined:
		if got != want {
			ss.serial = true
			return disorder("watch %d was created in place of %d", got, want)
		}
	case serial:
	}
	return nil
}

// endCreate handles the answer to a create request: the watch exists, or is refused. Its subscription
// may have been removed.
func (ss *session) endCreate(s *subscription, resp *pb.WatchResponse, refused bool) {
	if !refused {
		ss.highest = max(ss.highest, resp.WatchId)
	}
	switch {
	case s == nil && refused:
		return
	case s == nil:
		ss.send(cancelRequest(resp.WatchId))
		return
	case refused:
		s.become(parked)
		s.owner.refused(s, resp)
		return
	}
	s.become(live)
	s.id, s.noPrevKV = resp.WatchId, true
	s.created = resp.GetHeader().GetRevision()
	ss.named = isNamed(resp.GetHeader())
	if s.next == 0 && s.created > 0 {
		s.next = s.created + 1
	}
	ss.live[s.id] = s
	ss.progress.limitUnconfirmed(s)
	s.owner.created(s, resp.GetHeader())
}

// isNamed reports whether a header identifies its cluster and member.
func isNamed(h *pb.ResponseHeader) bool {
	return h.GetClusterId() != 0 && h.GetMemberId() != 0 && h.GetRaftTerm() != 0
}

// canceled ends a subscription that the server has cancelled. After a compaction the
// server keeps its watcher registered until the client cancels it, and meanwhile
// answers no progress request on the whole stream.
func (ss *session) canceled(resp *pb.WatchResponse) {
	s := ss.live[resp.WatchId]
	if s == nil {
		return // the client cancelled it
	}
	delete(ss.live, s.id)
	if resp.CompactRevision != 0 && !ss.foreign {
		ss.send(cancelRequest(s.id))
	}
	s.become(parked)
	s.owner.canceled(s, resp)
}

// deliver passes events or progress to their subscription.
func (ss *session) deliver(resp *pb.WatchResponse) error {
	s := ss.live[resp.WatchId]
	if s == nil {
		if resp.WatchId > ss.highest {
			return disorder("response for watch %d, which is not created yet", resp.WatchId)
		}
		return nil // it was in flight when the subscription was removed
	}
	for _, ev := range resp.Events {
		if ev.GetKv() == nil {
			return disorder("event of watch %d without a key", resp.WatchId)
		}
	}
	if s.req.PrevKV && ss.repeat(s, resp) {
		return nil
	}
	if int(s.priorRequests) > ss.progress.past && ss.mode == pipelined {
		ss.confirm(s) // in other modes the peer is not etcd, and may have no such queue
	}
	if len(resp.Events) == 0 && !resp.Fragment && s.assembly == nil {
		if rev := resp.GetHeader().GetRevision(); rev > 0 && s.advance(rev) {
			s.owner.progress(s, resp.GetHeader(), true)
		}
		return nil
	}
	if events := s.accept(resp); len(events) > 0 {
		s.owner.events(s, resp.GetHeader(), events)
	}
	if !resp.Fragment && s.assembly != nil {
		s.endAssembly()
	}
	return nil
}

// refusesID reports whether a server may have refused a create for the id in it. kine
// refuses every create with an id as an invalid argument; etcd never does.
func refusesID(resp *pb.WatchResponse) bool {
	_, known := errors.AsType[rpctypes.EtcdError](refusal(resp.CancelReason))
	return !known && strings.HasPrefix(resp.CancelReason, "rpc error: code = InvalidArgument ")
}

// isDenial reports whether a refusal says that the user has no permission.
func isDenial(refusal error) bool { return errors.Is(refusal, rpctypes.ErrPermissionDenied) }

// refusal converts a server's reason for refusing a watch into an error: the one in
// rpctypes with that text, if there is one. etcd sends some reasons as printed gRPC
// errors, with the code in front; its grpc-proxy sends the same texts without the
// code.
func refusal(reason string) error {
	text := reason
	if strings.HasPrefix(text, "rpc error: code = ") {
		if _, desc, ok := strings.Cut(text, " desc = "); ok {
			text = desc
		}
	}
	if known, ok := errors.AsType[rpctypes.EtcdError](rpctypes.Error(errors.New(text))); ok {
		return known
	}
	return errors.New(reason)
}
