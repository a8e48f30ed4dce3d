//go:build !linux

package balancer

import "net"

func progressOf(net.Conn) progress { return progress{} }
