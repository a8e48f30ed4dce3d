package fakeetcd

// leadership is which member leads. Cluster.mu guards it.
type leadership struct {
	leader *Member // nil if there is none
	term   uint64
	lost   chan struct{} // closed when the leader is lost, replaced by the next leader
}

// firstTerm is the raft term of a new cluster: the first election of a real
// one is usually won in term 2.
const firstTerm = 2

func (l *leadership) set(m *Member) {
	switch {
	case m == nil && l.leader != nil:
		close(l.lost)
	case m != nil && l.leader == nil:
		l.lost = make(chan struct{})
	}
	l.leader = m
	l.term++
}

// leaderLost returns a channel that is closed when the leader is lost, nil for a
// stream that does not require a leader.
func (c *Call) leaderLost() <-chan struct{} {
	if !c.requiresLeader() {
		return nil
	}
	return locked(c.cluster, func() <-chan struct{} { return c.cluster.lost })
}
