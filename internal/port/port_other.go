//go:build !linux

package port

import "net"

func reserve() (number int, release func() error, err error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, nil, err
	}
	return listener.Addr().(*net.TCPAddr).Port, func() error { return nil }, listener.Close()
}
