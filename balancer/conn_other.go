//go:build !linux

package balancer

import "net"

// counting returns a connection that counts what arrives.
func counting(conn net.Conn, counts *netConn) net.Conn { return countingConn{conn, counts} }
