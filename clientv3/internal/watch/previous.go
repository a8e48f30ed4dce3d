package watch

import (
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
)

// repeat creates a watch again whose first response came without the previous key-values
// that it asked for, and reports whether it did. An etcd server notes that a watch wants
// them only after it has created it (serverWatchStream.recvLoop), and a response that is
// sent in between has none. It creates a watch again once in a row: the previous key-values
// may be compacted. It does not if the events would not come again: a mock sends them once,
// and a watch from an unknown revision has no point to resume at.
func (ss *session) repeat(s *subscription, resp *pb.WatchResponse) bool {
	if len(resp.Events) == 0 || ss.foreign || s.next == 0 {
		return false
	}
	first := s.first
	s.first = false
	switch lacks := lacksPrevious(resp.Events); {
	case !lacks:
		s.repeated = false
		return false
	case !first || s.repeated:
		return false
	}
	s.repeated = true
	ss.remove(s)
	ss.add(s)
	return true
}

// lacksPrevious reports whether none of the events that must have a previous key-value has one.
func lacksPrevious(events []*mvccpb.Event) bool {
	lacks := false
	for _, ev := range events {
		if ev.GetPrevKv() != nil {
			return false
		}
		creates := ev.GetType() == mvccpb.Event_PUT && ev.GetKv().GetCreateRevision() == ev.GetKv().GetModRevision()
		lacks = lacks || !creates
	}
	return lacks
}
