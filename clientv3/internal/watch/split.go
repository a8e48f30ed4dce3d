package watch

import (
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
)

var _ stage = (*watcher)(nil) // of its catchup

func (w *watcher) open(from int64) *subscription {
	s := newSubscription(&w.req, w, from)
	w.sessionLocked().add(s)
	return s
}

func (w *watcher) close(s *subscription) { w.sessionLocked().remove(s) }

func (w *watcher) emit(h *pb.ResponseHeader, events []*mvccpb.Event) {
	w.push(Response{Header: h, Events: events})
}

// splittable reports whether the peer supports splitting: etcd from 3.4.25 and 3.5.8
// on. Such a server echoes the given ids, identifies itself in its headers, and
// answers progress requests only after it has sent all events: a part without events
// ends by progress alone.
//
//   - etcd's grpc-proxy chooses the ids and answers no progress requests. It serves several
//     watches with one upstream watch; those that join later get headers without IDs.
//   - kine refuses given ids, and sends headers without IDs.
//   - Older versions of etcd answer progress requests too early.
//
// The version that a peer reports is no evidence: kine reports etcd 3.5.
func (ss *session) splittable() bool {
	return ss.mode == pipelined && ss.named && !ss.progress.early
}

// considerCatchup decides whether to split the watch. The split runs after the
// shard's lock is released, because the watch moves to another shard.
func (w *watcher) considerCatchup(h *pb.ResponseHeader, x extent) {
	sh := w.shard.Load()
	if w.unsplit || sh.engine.cfg.DisableSplit || !sh.session.splittable() {
		return
	}
	p, behind := planCatchup(h.GetRevision(), x, sh.engine.allowance())
	slow := behind && w.buffer.held() > sh.engine.cfg.MaxBuffer/8 // the caller is the bottleneck
	if behind && !slow {
		sh.later = append(sh.later, func() { sh.engine.catchUp(w, sh, p) })
	}
}

// afterCatchup checks a split watch after each step.
func (w *watcher) afterCatchup() {
	w.current = w.catchup.current()
	switch failure := w.catchup.failure(); {
	case failure != nil:
		w.canceled(w.current, failure)
	case w.catchup.finished():
		w.endCatchup()
		w.caughtUp()
	}
	w.considerPause(w.buffer.held())
}

// rejoin continues without parts: the server, or a proxy, does not report progress,
// so a part without events never ends.
func (w *watcher) rejoin() {
	next := w.stop()
	w.unsplit = true
	w.current = newSubscription(&w.req, w, next)
	w.sessionLocked().add(w.current)
}

func (w *watcher) endCatchup() {
	e := w.shard.Load().engine
	e.parts.Add(int64(-w.catchup.plan.parts))
	e.cfg.Budget.use(-w.catchup.plan.budget)
	w.shard.Load().splits--
	w.catchup = nil
}
