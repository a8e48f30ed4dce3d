//go:build unix

package cli

import (
	"os"

	"golang.org/x/sys/unix"
)

// noReader reports whether a file is a pipe, or a socket, whose other end is closed.
func noReader(file *os.File) (closed bool) {
	conn, err := file.SyscallConn()
	if err != nil {
		return false
	}
	_ = conn.Control(func(fd uintptr) { // an error says that the file is closed here
		polled := []unix.PollFd{{Fd: int32(fd)}}
		_, err := unix.Poll(polled, 0)
		closed = err == nil && polled[0].Revents&unix.POLLERR != 0
	})
	return closed
}
