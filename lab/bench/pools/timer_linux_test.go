package pools

import (
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// timer waits until the kernel wakes it. Go's own timers are late by up to a millisecond, because
// that is the unit in which an idle program waits; the link takes no longer for four chunks.
type timer struct {
	fd   int
	file *os.File
}

func newTimer() (*timer, error) {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("timerfd_create", err)
	}
	return &timer{fd, os.NewFile(uintptr(fd), "timer")}, nil
}

// wait returns at a time.
func (t *timer) wait(until time.Time) error {
	d := time.Until(until)
	if d <= 0 {
		return nil
	}
	spec := unix.ItimerSpec{Value: unix.NsecToTimespec(int64(d))}
	if err := unix.TimerfdSettime(t.fd, 0, &spec, nil); err != nil {
		return os.NewSyscallError("timerfd_settime", err)
	}
	var expirations [8]byte
	_, err := t.file.Read(expirations[:])
	return err
}

func (t *timer) close() error { return t.file.Close() }
