package watch

import "time"

// firstCreateTimeout is how long the first create on a stream may be unanswered. A member that works
// answers it at once, whatever else it does, and one that does not is noticed by others
// sooner, unless a proxy stands before it that answers probes by other members.
const firstCreateTimeout = 10 * time.Second

// errUngreeted ends a stream on which nothing was ever answered.
var errUngreeted = disorder("nothing was answered on it for %v", firstCreateTimeout)

// firstCreate waits until something is answered on a stream. It looks every maxGreeting, and
// gives the stream up if a create is unanswered that was under way at the look before: one
// that comes later, since all watches were paused, may take up to twice as long.
type firstCreate struct {
	sh     *shard
	wake   chan struct{} // of the stream's writer
	giveUp func()

	// What follows is guarded by the shard's lock.
	timer *time.Timer
	asked bool // a create was under way at the last look
}

// awaitFirstCreate begins to wait on the stream whose writer waits for wake.
func (sh *shard) awaitFirstCreate(wake chan struct{}, giveUp func()) *firstCreate {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	g := &firstCreate{sh: sh, wake: wake, giveUp: giveUp, asked: len(sh.session.pending) > 0}
	g.timer = time.AfterFunc(firstCreateTimeout, g.look)
	return g
}

func (g *firstCreate) look() {
	g.sh.mu.Lock()
	defer g.sh.mu.Unlock()
	switch {
	case g.sh.wake != g.wake || g.sh.session.firstCreated || g.sh.session.plain:
	case g.asked:
		g.giveUp()
	default:
		g.asked = len(g.sh.session.pending) > 0
		g.timer.Reset(firstCreateTimeout)
	}
}

// stop ends the wait. A look that is under way may set another, which finds the stream gone.
func (g *firstCreate) stop() { g.timer.Stop() }
