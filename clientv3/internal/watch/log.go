package watch

import (
	"time"

	"go.uber.org/zap"
)

const (
	// slowReader is how long a response waits for its reader before the watch logs
	// it, with LogSlowReader.
	slowReader = 100 * time.Millisecond
	// slowReaderInterval is the least time between two such lines of a watch, and
	// between two lines about paused watches.
	slowReaderInterval = 5 * time.Second
)

// logPause logs that a watch was paused. It logs one line per slowReaderInterval
// for all watches.
func (e *Engine) logPause(req *Request, next int64, limit int) {
	now := time.Now().UnixNano()
	if last := e.pauseLogged.Load(); now-last < int64(slowReaderInterval) || !e.pauseLogged.CompareAndSwap(last, now) {
		return
	}
	e.cfg.Logger().Warn("watch paused: its reader is too slow; the watch resumes when half of the buffer is read",
		zap.ByteString("key", req.Key), zap.ByteString("range-end", req.End),
		zap.Int64("next-revision", next), zap.Int("max-unread-bytes", limit))
}

// slowness returns a function that receives how long each response waited.
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
