package balancer

import "github.com/quorate/quorate/health"

// RolesChanged tells the policy that there are signs of a change of roles: a reply was
// made in a later term, for instance. Endpoints are asked for theirs, if the strategy
// wants to know. It may be called for nil and for detached endpoints.
func (e *Endpoint) RolesChanged() {
	if e == nil || e.policy == nil {
		return
	}
	e.policy.askRoles(nil)
}

// askRoles asks the endpoints what they are now, if the strategy wants to know, but one
// whose state has changed and that is asked anyway; nil for none.
func (p *policy) askRoles(changed *Endpoint) {
	if _, ok := p.strategy.(RoleAware); !ok {
		return
	}
	for _, ep := range p.all() {
		if ep != changed && rank(ep.State(), Full) <= rank(health.Suspected, Full) {
			p.probe(ep, look)
		}
	}
}
