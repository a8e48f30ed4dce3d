package watch

import (
	"time"

	"go.uber.org/zap"
)

const (
	// slowReader is how long a response waits for its reader before that is worth
	// a line in the log, for those who asked for it.
	slowReader = 100 * time.Millisecond
	// slowReaderInterval is the least time between two such lines of a watch, and
	// between two lines that say of any watch that it was paused.
	slowReaderInterval = 5 * time.Second
)

// logPause says that a watch has been taken off its stream. Of several within a few
// seconds it says so of one.
func (e *Engine) logPause(req *Request, next int64, limit int) {
	now := time.Now().UnixNano()
	if last := e.pauseLogged.Load(); now-last < int64(slowReaderInterval) || !e.pauseLogged.CompareAndSwap(last, now) {
		return
	}
	e.cfg.Logger().Warn("watch paused: its reader leaves too much unread; it goes on when half of that is read",
		zap.ByteString("key", req.Key), zap.ByteString("range-end", req.End),
		zap.Int64("next-revision", next), zap.Int("max-unread-bytes", limit))
}

// slowness returns a function that is told how long each response waited.
func (e *Engine) slowness(req *Request) func(time.Duration) {
	if !req.LogSlowReader {
		return func(time.Duration) {}
	}
	var logged time.Time
	return func(waited time.Duration) {
		if waited < slowReader || time.Since(logged) < slowReaderInterval {
			return
		}
		logged = time.Now()
		e.cfg.Logger().Info("watch responses wait for their reader",
			zap.ByteString("key", req.Key), zap.ByteString("range-end", req.End), zap.Duration("waited", waited))
	}
}
