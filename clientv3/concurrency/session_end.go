package concurrency

import (
	"errors"
	"fmt"
	"time"

	"github.com/quorate/quorate/clientv3"
)

var (
	// ErrSessionOrphaned is the cause of a session's end by [Session.Orphan].
	ErrSessionOrphaned = errors.New("session: orphaned")

	// ErrSessionClosed is the cause of a session's end by [Session.Close].
	ErrSessionClosed = errors.New("session: closed")
)

// errKeepAliveEnded is the cause of a session's end if the program has replaced the
// client's Lease and that one reports no cause.
var errKeepAliveEnded = errors.New("session: its lease is no longer kept alive")

// SessionEndedError reports why a session ended, see [Session.Err].
type SessionEndedError struct {
	// Lease is the session's lease.
	Lease clientv3.LeaseID
	// LastRenewal is the send time of the last answered renewal, zero if there was
	// none: see [clientv3.LeaseMonitor.LastRenewal].
	LastRenewal time.Time
	// Cause is why the session ended.
	Cause error
}

// Error returns the cause, with the lease and the time of its last renewal.
func (e *SessionEndedError) Error() string {
	renewed := "never renewed"
	if !e.LastRenewal.IsZero() {
		renewed = "last renewed at " + e.LastRenewal.Format(time.RFC3339Nano)
	}
	return fmt.Sprintf("session of lease %x ended, %s: %v", int64(e.Lease), renewed, e.Cause)
}

// Unwrap returns the cause.
func (e *SessionEndedError) Unwrap() error { return e.Cause }
