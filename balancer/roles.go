package balancer

import "github.com/quorate/quorate/health"

// askRoles asks the endpoints what they are now, if the strategy wants to know: the state
// of one has changed.
func (p *policy) askRoles(changed *Endpoint) {
	if _, ok := p.strategy.(RoleAware); !ok {
		return
	}
	for _, ep := range changed.Siblings() {
		if ep != changed && rank(ep.State(), Full) <= rank(health.Suspected, Full) {
			p.probe(ep, look)
		}
	}
}
