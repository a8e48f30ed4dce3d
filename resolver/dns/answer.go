package dns

import (
	"cmp"
	"net/netip"
	"slices"
	"time"
)

// backend is the target of one connection.
type backend struct {
	addrs []netip.Addr
	// The fields below are from an SRV record.
	host string
	port uint16
	preference
}

func (b backend) equal(o backend) bool {
	return b.host == o.host && b.port == o.port && b.preference == o.preference && slices.Equal(b.addrs, o.addrs)
}

func (b backend) compare(o backend) int {
	return cmp.Or(
		cmp.Compare(b.priority, o.priority),
		cmp.Compare(b.host, o.host),
		cmp.Compare(b.port, o.port),
		slices.CompareFunc(b.addrs, o.addrs, netip.Addr.Compare),
		cmp.Compare(b.weight, o.weight),
	)
}

// answer is the result of a lookup, in a stable order.
type answer struct {
	backends []backend
	ttl      time.Duration // of an empty answer if there are no backends; unknownTTL if unknown
	// missing is the family whose addresses could not be looked up, FamilyAuto if none.
	missing Family
	name    string // as in known
	moved   bool   // the name that was known before has no records now
	// incomplete is why backends may be missing: the lookup of a target failed, and no address of it is known.
	incomplete string
}

// addresses holds the addresses of one host.
type addresses struct {
	all     []netip.Addr // those of the preferred family first
	missing Family
	ttl     time.Duration
}

// newAddresses sorts the addresses. The system's preference between the families stays. Its order
// within a family depends on the other addresses, and would make all clients on a host prefer the
// same backend.
func newAddresses(found []netip.Addr) addresses {
	all := make([]netip.Addr, 0, len(found))
	for _, a := range found {
		all = append(all, a.Unmap())
	}
	slices.SortFunc(all, netip.Addr.Compare) // IPv4 first
	if n := slices.IndexFunc(all, netip.Addr.Is6); n > 0 && found[0].Unmap().Is6() {
		all = slices.Concat(all[n:], all[:n])
	}
	return addresses{all: slices.Compact(all)}
}

// backends groups addresses into backends, see FamilyAuto.
func (a addresses) backends(f Family) []backend {
	if len(a.all) == 0 {
		return nil
	}
	first := familyOf(a.all[0])
	others := slices.IndexFunc(a.all, func(x netip.Addr) bool { return familyOf(x) != first })
	used := a.all
	if f == FamilyAuto && others >= 0 {
		if others == 1 && len(a.all) == 2 {
			return []backend{{addrs: a.all}}
		}
		used = a.all[:others]
	}
	list := make([]backend, len(used))
	for i, addr := range used {
		list[i] = backend{addrs: []netip.Addr{addr}}
	}
	slices.SortFunc(list, backend.compare)
	return list
}

// highestPriority returns the backends of the best priority of a list sorted by priority.
func highestPriority(list []backend) []backend {
	worse := slices.IndexFunc(list, func(b backend) bool { return b.priority != list[0].priority })
	if worse < 0 {
		return list
	}
	return list[:worse]
}
