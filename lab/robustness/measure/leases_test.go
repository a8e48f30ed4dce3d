package measure

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/quorate/quorate/lab/robustness/history"
)

func TestLeases(t *testing.T) {
	var m Meter
	at := func(k history.LeaseEventKind) history.LeaseEvent { return history.LeaseEvent{Kind: k} }
	renewed := func(margin time.Duration) history.LeaseEvent {
		return history.LeaseEvent{Kind: history.LeaseRenewed, Margin: margin}
	}
	m.Lease(at(history.LeaseGranted)) // before the first row

	m.Begin("healthy", 0)
	m.Lease(at(history.LeaseGranted))
	m.Lease(renewed(3 * time.Second))
	m.Lease(renewed(2 * time.Second))
	m.Lease(renewed(time.Second))
	m.Begin("stop", 100*ms)
	m.Lease(history.LeaseEvent{Kind: history.LeaseExpired, Code: history.KeepaliveEnded})
	m.Lease(history.LeaseEvent{Kind: history.LeaseFailed, Code: "Unavailable", Err: errors.New("no answer")})
	m.Lease(at(history.LeaseGranted))
	m.Lease(renewed(3 * time.Second))
	m.Begin("late", 200*ms)
	m.Lease(renewed(-time.Second))
	m.Begin("quiet", 300*ms)
	m.End(400 * ms)
	m.Lease(at(history.LeaseExpired))

	rows := m.Rows(time.Hour)
	assert.Equal(t, LeaseStats{Kept: 2, Renewals: 3, SmallestMargin: time.Second}, rows[0].Leases)
	assert.Equal(t, LeaseStats{
		Kept: 2, Expired: 1, Renewals: 1, Failures: 1,
		Codes: map[string]int64{history.KeepaliveEnded: 1, "Unavailable": 1},
	}, rows[1].Leases, "one was kept and one is new")
	assert.Equal(t, LeaseStats{Kept: 2, Renewals: 1}, rows[2].Leases, "a renewal that came too late left nothing")
	assert.Equal(t, LeaseStats{Kept: 2}, rows[3].Leases)
	assert.Equal(t, map[string]string{"lease Unavailable": "no answer"}, m.ErrorSamples())
}
