//go:build !linux

package pools

import "time"

// timer is Go's own.
type timer struct{}

func newTimer() (*timer, error) { return &timer{}, nil }

// wait returns at a time, or a little later.
func (*timer) wait(until time.Time) error {
	time.Sleep(time.Until(until))
	return nil
}

func (*timer) close() error { return nil }
