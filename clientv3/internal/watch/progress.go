package watch

import pb "go.etcd.io/etcd/api/v3/etcdserverpb"

// maxInFlight bounds the progress responses that a server can have in flight:
// etcd's watch stream buffers 128 responses and sends one.
const maxInFlight = 129

// progressCounts counts the progress requests of a stream and their answers. A
// server answers each at most once, in order, and not at all while any watcher
// on the stream is behind or starts in the future.
//
// Before 3.4.25 and 3.5.8 etcd answers at once, even with events still to send, so
// the answer can overtake events of earlier revisions. Such a server can be
// detected: it also answers on a stream without watchers, where later versions do
// not. So every stream begins with a progress request. If the answer arrives before
// the reply to the first create, progress for all watchers goes only to callers
// that requested it, as they would get it from that server anyway, and moves no
// resume points.
type progressCounts struct {
	wanted bool // requested by a caller while there was no stream
	early  bool // the server answers before it has sent all events
	stray  bool // the answer to the stream's first request may still arrive
	made   int  // requests after the first create of this stream
	sent   int  // how many of them may still be answered
	past   int  // how many of them, from the first, will not be answered any more
	notify int  // further answers that are for callers
}

// inFlight returns how many answers to earlier requests may still arrive.
func (p *progressCounts) inFlight() uint8 { return uint8(min(p.sent, maxInFlight)) }

// reset prepares for the next stream. Unanswered requests of callers are repeated
// there.
func (p *progressCounts) reset() { *p = progressCounts{wanted: p.wanted || p.notify > 0} }

// requestProgress sends a progress request. With notify the answer is for the
// callers; otherwise it only moves resume points.
func (ss *session) requestProgress(notify bool) {
	p := &ss.progress
	if !ss.connected || !ss.firstCreated || len(ss.queue) > 0 {
		p.wanted = p.wanted || notify
		return
	}
	if ss.mode == serial && !notify {
		return // etcd's grpc-proxy logs an error for every progress request
	}
	p.wanted = false
	if n := len(ss.out); n == 0 || ss.out[n-1].GetProgressRequest() == nil {
		ss.send(progressRequest())
		p.made++
		p.sent++
	}
	if notify {
		p.notify = min(max(p.sent, 1), 2) // a request of the engine may be answered first
	}
}

// confirm records a response for s that the server queued, behind its answers, after it had
// created s. So all answers to requests from before that create have arrived: the server
// ignored the other requests.
func (ss *session) confirm(s *subscription) {
	p := &ss.progress
	p.past = int(s.priorRequests)
	p.sent = min(p.sent, p.made-p.past)
	for _, other := range ss.live {
		p.limitUnconfirmed(other)
	}
}

// limitUnconfirmed drops the answers that will not arrive any more.
func (p *progressCounts) limitUnconfirmed(s *subscription) {
	s.unconfirmed = min(s.unconfirmed, uint8(min(max(int(s.priorRequests)-p.past, 0), maxInFlight)))
}

// progressForAll processes a progress response for all watchers of the stream.
//
// It is valid for watchers that existed when the server answered. etcd's
// confirmation of a create can overtake such answers: an answer from before the
// watcher existed can arrive after its confirmation. If the answer's revision is
// above the confirmation's, it is newer; otherwise the watcher has to wait until
// all answers that may have been in flight have arrived.
func (ss *session) progressForAll(resp *pb.WatchResponse) {
	rev := resp.GetHeader().GetRevision()
	if resp.Canceled || len(resp.Events) > 0 || rev <= 0 {
		return
	}
	p := &ss.progress
	if ss.foreign { // the early check was not made
		p.sent, p.notify = 0, 0
		ss.passOn(resp.GetHeader(), true)
		return
	}
	if !ss.firstCreated {
		p.early = true
		return
	}
	if p.stray {
		p.stray = false
		if p.sent > 0 {
			ss.send(progressRequest()) // this one may be as old as the stream
		}
		return
	}
	if p.sent == 0 {
		return // an unsolicited answer
	}
	notify := p.notify > 0
	if !p.early {
		for _, s := range ss.live {
			if rev > s.created && int(s.priorRequests) > p.past {
				ss.confirm(s)
			}
		}
	}
	p.sent = max(p.sent-1, 0)
	p.notify = max(p.notify-1, 0)
	if p.early {
		ss.passOn(resp.GetHeader(), notify)
		return
	}
	doubted := false
	for _, s := range ss.live {
		if s.assembly != nil {
			continue // in the middle of a fragmented batch, so this is not for it
		}
		if rev > s.created {
			s.unconfirmed = 0
		}
		if s.unconfirmed > 0 {
			s.unconfirmed--
			if rev >= s.next {
				s.progressPending = s.progressPending || notify
				doubted = true
				continue
			}
		}
		if s.advance(rev) {
			s.owner.progress(s, resp.GetHeader(), notify || s.progressPending)
			s.progressPending = false
		}
	}
	if doubted {
		ss.requestProgress(false)
	}
}

// passOn forwards the answer of an early server to callers.
func (ss *session) passOn(h *pb.ResponseHeader, notify bool) {
	for _, s := range ss.live {
		if notify && h.GetRevision()+1 >= s.next {
			s.owner.progress(s, h, true)
		}
	}
}
