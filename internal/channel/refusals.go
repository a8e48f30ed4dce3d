package channel

import "slices"

// refusals are the connections whose members refused a piece of work, for
// reasons that speak for one member alone.
type refusals struct {
	conns   []*connection
	unknown int // refusals over connections that are not ours
}

func (r *refusals) add(conn *connection) {
	if conn == nil {
		r.unknown++
	} else if !slices.Contains(r.conns, conn) {
		r.conns = append(slices.DeleteFunc(r.conns, (*connection).isGone), conn)
	}
}

// byAll reports whether every endpoint has refused, conn's member as the last
// one. Where connections are not known, width refusals are taken for that.
func (r *refusals) byAll(conn *connection, width int) bool {
	if conn == nil {
		return r.unknown >= width
	}
	return conn.peers.allIn(r.conns, false)
}

// byAllReachable is like byAll, but endpoints that cannot be reached have no say.
func (r *refusals) byAllReachable(conn *connection, width int) bool {
	if conn == nil {
		return r.unknown >= width
	}
	return conn.peers.allIn(r.conns, true)
}
