package watch

import "time"

// firstCreateTimeout is how long the first create on a stream may be unanswered. A working member
// answers it at once, under any load. Probes usually detect a failed member sooner, but not behind
// a proxy that answers probes through other members.
const firstCreateTimeout = 10 * time.Second

// errNoResponse ends a stream that has never delivered a response.
var errNoResponse = disorder("nothing was answered on it for %v", firstCreateTimeout)

// firstCreate waits for the first response on a stream. It checks every firstCreateTimeout,
// and closes the stream if a create was in flight at two checks in a row. So a create that
// is sent later, because all watches were paused, may take up to twice as long.
type firstCreate struct {
	sh     *shard
	wake   chan struct{} // of the stream's writer
	giveUp func()

	// What follows is guarded by the shard's lock.
	timer *time.Timer
	asked bool // a create was in flight at the last check
}

// awaitFirstCreate starts the wait for the stream whose writer waits on wake.
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

// stop ends the wait. A check that already runs may schedule another, which finds the stream
// closed.
func (g *firstCreate) stop() { g.timer.Stop() }
