package lease

import "time"

// maxGrants bounds what is remembered of leases that nobody keeps alive, to about
// 2 MB. Past it everything is forgotten, which only means that
// such a lease is given as long for its first answer as an unknown one.
const maxGrants = 1 << 15

// grants remembers when leases were granted, or renewed by those who have left, and
// for how long. A lease that is then kept alive does not depend on how soon its first
// request is answered.
type grants struct {
	byID  map[int64]grant
	sweep int // the size at which those that are over are removed
}

type grant struct {
	sent instant
	ttl  time.Duration
}

func (g *grants) add(now instant, id int64, granted grant) {
	if len(g.byID) >= g.sweep {
		for id, old := range g.byID {
			if old.sent.add(old.ttl) <= now {
				delete(g.byID, id)
			}
		}
		if len(g.byID) >= maxGrants {
			clear(g.byID)
		}
		g.sweep = min(2*len(g.byID)+64, maxGrants)
	}
	if g.byID == nil {
		g.byID = make(map[int64]grant)
	}
	g.byID[id] = granted
}

// take returns what is known of a lease and forgets it.
func (g *grants) take(id int64) grant {
	granted := g.byID[id]
	delete(g.byID, id)
	return granted
}
