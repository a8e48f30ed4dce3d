package balancer

import "github.com/quorate/quorate/health"

// join moves a newly connected endpoint to the shared table, if allowed, and returns the
// resulting change of its state. A client that does not probe finds nothing out, and shares
// nothing. It needs the policy's lock.
func (p *policy) join(s *subConn) health.Change {
	o, ep := p.options(), s.ep
	if ep.joined.Load() || o.Shared == nil || o.ShareKey == nil || !s.conn.known() || !p.canProbe() {
		return health.Change{}
	}
	key := o.ShareKey(ep.addresses[0])
	if key == "" {
		return health.Change{}
	}
	ep.joined.Store(true)
	own := ep.known()
	shared := o.Shared.Acquire(key, ep.address)
	ep.unsubscribe()
	ep.entry.Store(shared)
	p.subscribe(ep)
	own.Release()
	was, is := own.Load(), shared.Load()
	return health.Change{Endpoint: ep.address, From: was.State, To: is.State, Evidence: is.Evidence}
}

// subscribe subscribes the policy to changes of the endpoint's state. It needs the
// policy's lock, or an endpoint that is not published yet.
func (p *policy) subscribe(ep *Endpoint) {
	entry := ep.known()
	ep.unsubscribe = entry.Subscribe(func(c health.Change) {
		if ep.known() == entry {
			p.changed(ep, c)
		}
	})
}
