package check

import "github.com/quorate/quorate/lab/history"

// States of a write, beside the revision of an acknowledged one.
const (
	unknown int64 = 0  // in flight, or of unknown outcome for its caller
	refused int64 = -1 // the caller knows that it had no effect
)

// outcomesID names outcomes: the keys that one caller writes in one space.
type outcomesID struct {
	space  history.Space
	caller int
}

// outcomes holds the outcome of each write of a caller, by sequence
// number: the revision of an acknowledged one, unknown, or refused.
type outcomes struct {
	writes []int64
}

func (l *outcomes) begin(seq int64) {
	for int64(len(l.writes)) <= seq {
		l.writes = append(l.writes, unknown)
	}
}

func (l *outcomes) end(seq, state int64) { l.writes[seq] = state }

// invoked reports whether the write was ever sent.
func (l *outcomes) invoked(seq int64) bool { return seq >= 0 && seq < int64(len(l.writes)) }

// state returns the outcome for the caller; unknown for a write never sent.
func (l *outcomes) state(seq int64) int64 {
	if !l.invoked(seq) {
		return unknown
	}
	return l.writes[seq]
}
