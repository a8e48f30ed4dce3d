package watch

import "time"

// firstCreateTimeout is how long the first create on a stream may be unanswered. A working member
// answers it at once, under any load. Probes usually detect a failed member sooner, but not behind
// a proxy that answers probes through other members.
const firstCreateTimeout = 10 * time.Second

// errNoResponse ends a stream that has never delivered a response.
var errNoResponse = disorder("nothing was answered on it for %v", firstCreateTimeout)

// awaitFirstCreate waits for the first response on the stream whose writer waits on wake. It
// checks every firstCreateTimeout, and gives the stream up if a create was in flight at two
// checks in a row. So a create that is sent later, because all watches were paused, may take up
// to twice as long. A check that runs while stop is called may schedule another, which finds the
// stream closed.
func (sh *shard) awaitFirstCreate(wake chan struct{}, giveUp func()) (stop func() bool) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	pending := len(sh.session.pending) > 0 // at the last check
	var timer *time.Timer
	timer = time.AfterFunc(firstCreateTimeout, func() {
		sh.mu.Lock()
		defer sh.mu.Unlock()
		switch {
		case sh.wake != wake || sh.session.firstCreated || sh.session.foreign:
		case pending:
			giveUp()
		default:
			pending = len(sh.session.pending) > 0
			timer.Reset(firstCreateTimeout)
		}
	})
	return timer.Stop
}
