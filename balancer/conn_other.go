//go:build !linux

package balancer

import "net"

// counting returns a connection that counts what arrives.
func counting(conn net.Conn, counts *netConn) net.Conn { return countingConn{conn, counts} }

// backlogOf returns the zero backlog: only Linux tells it.
func backlogOf(net.Conn) backlog { return backlog{} }
