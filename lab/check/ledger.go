package check

import "github.com/quorate/quorate/lab/history"

// States of a write in a ledger, beside the revision of an acknowledged one.
const (
	unknown int64 = 0  // in flight, or its caller was not told
	refused int64 = -1 // the caller was told that it had no effect
)

// ledgerID names a ledger: the keys that one caller writes in one space.
type ledgerID struct {
	space  history.Space
	caller int
}

// ledger holds what the caller was told of each of its writes, by sequence
// number: the revision of an acknowledged one, unknown, or refused.
type ledger struct {
	writes []int64
}

func (l *ledger) begin(seq int64) {
	for int64(len(l.writes)) <= seq {
		l.writes = append(l.writes, unknown)
	}
}

func (l *ledger) end(seq, state int64) { l.writes[seq] = state }

// invoked reports whether the write was ever sent.
func (l *ledger) invoked(seq int64) bool { return seq >= 0 && seq < int64(len(l.writes)) }

// state returns what the caller was told; unknown for a write never sent.
func (l *ledger) state(seq int64) int64 {
	if !l.invoked(seq) {
		return unknown
	}
	return l.writes[seq]
}
