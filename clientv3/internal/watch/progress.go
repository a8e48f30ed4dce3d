package watch

import pb "go.etcd.io/etcd/api/v3/etcdserverpb"

// maxInFlight bounds the answers to progress requests that a server can have
// under way: etcd's watch stream buffers 128 responses and sends one.
const maxInFlight = 129

// progressLedger counts the progress requests of a stream and their answers. A
// server answers each at most once, in order, and not at all while any watcher
// on the stream is behind or starts in the future.
//
// Before etcd 3.4.25 and 3.5.8 it answered at once, whatever it had yet to send,
// and the answer could overtake events of earlier revisions. Such a server gives
// itself away: it also answers on a stream without watchers, where later ones
// have nothing to say. So every stream begins with a request, and if an answer
// comes before the reply to the first create, progress for all is passed on to
// callers who asked for it, as they would get it from that server anyway, and
// moves nothing here.
type progressLedger struct {
	wanted bool // by a caller, while there was no stream
	early  bool // the server answers before it has sent everything
	stray  bool // the answer to the stream's first request may yet come
	made   int  // after the first create of this stream
	sent   int  // of these, how many may still be answered
	past   int  // the first so many of these will not be answered any more
	notify int  // answers to come until those are due that no caller asked for
}

// inFlight is how many answers may still come to the requests made so far.
func (p *progressLedger) inFlight() uint8 { return uint8(min(p.sent, maxInFlight)) }

// reset forgets the stream. What callers asked for is asked again on the next.
func (p *progressLedger) reset() { *p = progressLedger{wanted: p.wanted || p.notify > 0} }

// requestProgress asks the server up to where everything has been sent. With
// notify the answer is for the callers, otherwise it only moves the points
// where watches resume.
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
		p.notify = min(max(p.sent, 1), 2) // one of the engine's own may be answered first
	}
}

// confirm notes that s has been sent something from the queue that answers come through,
// which it entered after the server had created s. So all answers to requests from before that
// create have come: the others were ignored.
func (ss *session) confirm(s *subscription) {
	p := &ss.progress
	if s.asked <= p.past || ss.mode != pipelined {
		return // in other modes the peer is not etcd, which may have no such queue
	}
	p.past = s.asked
	p.sent = min(p.sent, p.made-p.past)
	for _, other := range ss.live {
		p.limitUnconfirmed(other)
	}
}

// limitUnconfirmed forgets the answers that will not come any more.
func (p *progressLedger) limitUnconfirmed(s *subscription) {
	s.unconfirmed = min(s.unconfirmed, uint8(min(max(s.asked-p.past, 0), maxInFlight)))
}

// progressForAll processes progress that the server reports for all watchers of
// the stream at once.
//
// It holds for those that existed when the server answered. etcd sends the
// confirmation of a create past such answers: one that was made before the
// watcher existed can arrive after its confirmation. If its revision is above
// the one in the confirmation it was made later; otherwise the watcher has to
// wait until all answers that may have been under way have come.
func (ss *session) progressForAll(resp *pb.WatchResponse) {
	rev := resp.GetHeader().GetRevision()
	if resp.Canceled || len(resp.Events) > 0 || rev <= 0 {
		return
	}
	p := &ss.progress
	if ss.plain { // whether it answers too early was not asked
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
		return // an answer to nothing
	}
	notify := p.notify > 0
	if !p.early {
		for _, s := range ss.live {
			if rev > s.created {
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
		if s.partial != nil {
			continue // it is in the middle of a batch, so this cannot be for it
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

// passOn tells callers what an early server says.
func (ss *session) passOn(h *pb.ResponseHeader, notify bool) {
	for _, s := range ss.live {
		if notify && h.GetRevision()+1 >= s.next {
			s.owner.progress(s, h, true)
		}
	}
}
