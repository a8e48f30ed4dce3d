package watch

import (
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
)

// repeat creates a watch again that has events without the previous key-values that it asked
// for, before any with one, and reports whether it did. An etcd server notes that a watch wants
// them only after it has created it (serverWatchStream.recvLoop), and responses that are
// sent in between have none. It creates a watch again once in a row: the previous key-values
// may be compacted. It does not if the events would not come again: a mock sends them once,
// and a watch from an unknown revision has no point to resume at.
func (ss *session) repeat(s *subscription, resp *pb.WatchResponse) bool {
	if ss.foreign || s.next == 0 {
		return false
	}
	switch has, lacks := previous(resp.Events); {
	case has:
		s.noPrevKV, s.repeated = false, false
	case lacks && s.noPrevKV && !s.repeated:
		s.repeated = true
		ss.remove(s)
		ss.add(s)
		return true
	}
	return false
}

// previous reports whether an event has a previous key-value and, if none has, whether one must.
func previous(events []*mvccpb.Event) (has, lacks bool) {
	for _, ev := range events {
		if ev.GetPrevKv() != nil {
			return true, false
		}
		creates := ev.GetType() == mvccpb.Event_PUT && ev.GetKv().GetCreateRevision() == ev.GetKv().GetModRevision()
		lacks = lacks || !creates
	}
	return false, lacks
}
