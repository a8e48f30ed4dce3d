package channel

import (
	"maps"
	"sync/atomic"

	"github.com/quorate/quorate/balancer"
	"github.com/quorate/quorate/internal/endpoint"
)

// names maps addresses to the configured names of endpoints, without secrets. It keeps names of
// removed endpoints, because work on them may continue for a while.
type names struct {
	byAddress atomic.Pointer[map[string]string]
}

// set adds endpoints. It is not called concurrently.
func (n *names) set(eps []endpoint.Endpoint) {
	next := make(map[string]string, len(eps))
	if known := n.byAddress.Load(); known != nil && len(*known) < maxNames {
		maps.Copy(next, *known)
	}
	for _, ep := range eps {
		next[ep.Address] = ep.String()
	}
	n.byAddress.Store(&next)
}

// shown returns the names of endpoints without secrets, each endpoint once.
func shown(eps []endpoint.Endpoint) []string {
	all := make([]string, 0, len(eps))
	seen := make(map[string]bool, len(eps))
	for _, ep := range eps {
		if !seen[ep.Address] {
			seen[ep.Address] = true
			all = append(all, ep.String())
		}
	}
	return all
}

// maxNames bounds the names that are kept when endpoints change often.
const maxNames = 1000

// of returns the name of an endpoint, "" for nil.
func (n *names) of(ep *balancer.Endpoint) string {
	if ep == nil {
		return ""
	}
	if known := n.byAddress.Load(); known != nil {
		if name, ok := (*known)[ep.Address()]; ok {
			return name
		}
	}
	return ep.Address()
}
