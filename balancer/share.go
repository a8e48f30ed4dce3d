package balancer

import "github.com/quorate/quorate/health"

// joinLocked moves a connected endpoint to the shared table, if allowed, and returns the resulting
// change of its state. A client that does not probe learns nothing about endpoints, and shares
// nothing.
func (p *policy) joinLocked(s *subConn) health.Change {
	o, ep := p.options(), s.ep
	if ep.joined.Load() || o.Shared == nil || o.ShareKey == nil || !s.conn.known() || !p.prober.canProbe() {
		return health.Change{}
	}
	key := o.ShareKey(ep.addresses[0])
	if key == "" {
		return health.Change{}
	}
	ep.joined.Store(true)
	own := ep.healthEntry()
	shared := o.Shared.Acquire(key, ep.address)
	ep.unsubscribe()
	ep.entry.Store(shared)
	p.subscribe(ep)
	if s.ready.Load() { // it has been counted
		own.AddConnections(-1)
		shared.AddConnections(1)
	}
	own.Release()
	was, is := own.Load(), shared.Load()
	return health.Change{Endpoint: ep.address, From: was.State, To: is.State, Evidence: is.Evidence}
}

// joinConnected moves the endpoints that connected while there was no other one, and so no
// probe. What the client has learned becomes the first evidence, if no other client has
// any.
func (p *policy) joinConnected() {
	for _, ep := range p.all() {
		p.mu.Lock()
		own := ep.healthEntry().Load()
		var joined health.Change
		if s := ep.conn(Calls); !p.closed && s != nil && s.ready.Load() {
			joined = p.joinLocked(s)
		}
		p.mu.Unlock()
		switch {
		case joined.From == health.Serving && joined.To == health.Unknown:
			p.note(ep, own.Evidence)
		case joined.From != joined.To:
			p.changed(ep, joined)
		}
	}
}

// subscribe subscribes the policy to changes of the endpoint's state. The policy is locked,
// or the endpoint is not published yet.
func (p *policy) subscribe(ep *Endpoint) {
	entry := ep.healthEntry()
	ep.unsubscribe = entry.Subscribe(func(c health.Change) {
		if ep.healthEntry() == entry {
			p.changed(ep, c)
		}
	})
}
