package lab

import "github.com/quorate/quorate/lab/link"

// ClientLink returns the link from all clients to member m.
func (c *Cluster) ClientLink(m *Member) *link.Link { return m.client }

// PeerLink returns the link of the connections that from dials to to, or nil when
// they are the same. A member keeps streams open to each peer that the peer writes
// its Raft messages to, and posts little itself: what a says to b travels mostly on
// PeerLink(b, a) in reverse, and the rest on PeerLink(a, b) forward. To silence a
// towards b, block both.
func (c *Cluster) PeerLink(from, to *Member) *link.Link {
	return c.links[from.index][to.index]
}

// Isolate blackholes every link between m and its peers, both ways. Its clients
// still reach it. Other settings of the links stay.
func (c *Cluster) Isolate(m *Member) {
	for _, other := range c.Others(m) {
		c.PeerLink(m, other).Blackhole(link.Both)
		c.PeerLink(other, m).Blackhole(link.Both)
	}
}

// Heal ends all conditions of links, those of clients and those of peers. It does
// not continue or restart members.
func (c *Cluster) Heal() {
	for _, m := range c.members {
		m.client.Heal()
		for _, other := range c.Others(m) {
			c.PeerLink(m, other).Heal()
		}
	}
}

// aimPeers leads the links of all other members to the address at which m listens
// for its peers.
func (c *Cluster) aimPeers(m *Member, address string) {
	for _, row := range c.links {
		if l := row[m.index]; l != nil {
			l.SetTarget(address)
		}
	}
}
