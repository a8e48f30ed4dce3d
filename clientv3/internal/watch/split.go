package watch

import (
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
)

// splitting is the stage of a watcher's catchup.
type splitting watcher

var _ stage = (*splitting)(nil)

func (sp *splitting) open(from int64) *subscription {
	w := (*watcher)(sp)
	s := newSubscription(&w.req, w, from)
	w.session().add(s)
	return s
}

func (sp *splitting) close(s *subscription) { (*watcher)(sp).session().remove(s) }

func (sp *splitting) emit(h *pb.ResponseHeader, events []*mvccpb.Event) {
	(*watcher)(sp).push(Response{Header: h, Events: events})
}

// splittable reports whether the peer is a server on which parts are proven to add up
// to the whole: etcd, from 3.4.25 and 3.5.8 on. Such a server echoes the ids that it
// is given, names itself in its headers, and answers progress requests only when it
// has sent everything: a part without events ends by progress alone.
//
//   - etcd's grpc-proxy chooses the ids and answers no progress requests. It serves several
//     watches by one, and those that join a running one get headers without names.
//   - kine refuses ids that it is given, and names nobody in its headers.
//   - Older versions of etcd answer progress requests too early.
//
// What a peer says of its version is no evidence: kine says that it is etcd 3.5.
func (ss *session) splittable() bool {
	return ss.mode == pipelined && ss.named && !ss.progress.early
}

// considerCatchup looks whether the watch should be split. That is done when
// the shard's lock is free, because it moves to another one.
func (w *watcher) considerCatchup(h *pb.ResponseHeader, events []*mvccpb.Event) {
	sh := w.shard.Load()
	if w.unsplit || sh.engine.cfg.DisableSplit || !sh.session.splittable() {
		return
	}
	p, behind := planCatchup(h.GetRevision(), events, sh.engine.allowance())
	slow := behind && w.buffer.held() > sh.engine.cfg.MaxBuffer/8 // it is the caller who takes the time
	if behind && !slow {
		sh.later = append(sh.later, func() { sh.engine.catchUp(w, sh, p) })
	}
}

// afterCatchup looks at what has become of a split watch.
func (w *watcher) afterCatchup() {
	w.current = w.catchup.current()
	switch failure := w.catchup.failure(); {
	case failure != nil:
		w.canceled(w.current, failure)
	case w.catchup.finished():
		w.endCatchup()
		sh := w.shard.Load()
		sh.later = append(sh.later, func() { sh.engine.move(w, sh, ordinary) })
	}
	w.considerPause()
}

// rejoin goes on without parts: the server at the other end, or something
// between, does not tell when a part without events has ended.
func (w *watcher) rejoin() {
	next := w.stop()
	w.unsplit = true
	w.current = newSubscription(&w.req, w, next)
	w.session().add(w.current)
}

func (w *watcher) endCatchup() {
	e := w.shard.Load().engine
	e.parts.Add(int64(-w.catchup.plan.parts))
	e.cfg.Budget.use(-w.catchup.plan.budget)
	w.shard.Load().splits--
	w.catchup = nil
}
