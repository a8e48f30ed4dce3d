package lease

import "time"

// maxGrants bounds the records of leases without keepers, to about 2 MB. Past it
// all records are dropped; such a lease then gets the same time for its first
// answer as an unknown one.
const maxGrants = 1 << 15

// grants records when, and for how long, leases without keepers were granted or last
// renewed. With a record, the first keepalive of a lease has at least the rest of its
// TTL to be answered.
type grants struct {
	byID  map[int64]grant
	sweep int // the size at which expired records are removed
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

func (g *grants) take(id int64) grant {
	granted := g.byID[id]
	delete(g.byID, id)
	return granted
}
