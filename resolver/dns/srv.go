package dns

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"

	"google.golang.org/grpc/resolver"

	"github.com/quorate/quorate/balancer"
)

// atOnce is how many targets of SRV records are looked up at the same time. A DNS server
// that sends their addresses along makes that unnecessary.
const atOnce = 8

// SRV has what an SRV record says of a backend beside its address (RFC 2782).
type SRV struct {
	// Priority: the lowest is the best.
	Priority uint16
	// Weight is the share of calls within a priority, relative to those of the others.
	Weight uint16
}

type srvKey struct{}

// SRVOf returns what the SRV record of an endpoint said, and false if it has none. It is for
// load-balancing policies that know what to do with priorities; weights are also where
// balancer.WeightOf finds them.
func SRVOf(e resolver.Endpoint) (SRV, bool) {
	s, ok := e.Attributes.Value(srvKey{}).(SRV)
	return s, ok
}

// annotate returns e with what the record said. RFC 2782 gives a weight of zero a very small
// share where others have more, which is balancer's least weight.
func (s SRV) annotate(e resolver.Endpoint) resolver.Endpoint {
	e.Attributes = e.Attributes.WithValue(srvKey{}, s)
	return balancer.SetWeight(e, uint32(s.Weight))
}

// targets returns a backend for each SRV record whose target has addresses.
func (l *lookup) targets(ctx context.Context, server string, records []*net.SRV, before []backend) (answer, error) {
	hosts := make([]string, len(records))
	for i, r := range records {
		hosts[i] = strings.ToLower(r.Target)
	}
	found := l.glued(hosts)
	var failure error
	if found == nil {
		known := map[string][]netip.Addr{}
		for _, b := range before {
			known[b.host] = b.addrs
		}
		found, failure = l.hosts(ctx, server, hosts, known)
	}
	a := answer{ttl: l.tap.validity()}
	for i, r := range records {
		of := found[hosts[i]]
		if len(of.all) == 0 {
			continue
		}
		// One order for what came along and what was looked up.
		slices.SortFunc(of.all, netip.Addr.Compare)
		a.ttl = min(a.ttl, of.ttl)
		a.backends = append(a.backends, backend{
			addrs: of.all, host: hosts[i], port: r.Port, SRV: SRV{Priority: r.Priority, Weight: r.Weight},
		})
	}
	if len(a.backends) == 0 {
		return answer{}, failure
	}
	slices.SortFunc(a.backends, backend.compare)
	a.backends = slices.CompactFunc(a.backends, backend.equal)
	return a, nil
}

// glued returns the addresses that came along with the SRV records, nil unless they did for
// all: what did not fit into a message was left out.
func (l *lookup) glued(hosts []string) map[string]addresses {
	found := map[string]addresses{}
	for _, host := range hosts {
		all := slices.DeleteFunc(slices.Clone(l.tap.gluedTo(host)), func(a netip.Addr) bool {
			return l.Family.network() != "ip" && familyOf(a) != l.Family
		})
		if len(all) == 0 {
			return nil
		}
		found[host] = addresses{all: newAddresses(all).all, ttl: unknownTTL}
	}
	return found
}

// hosts looks the addresses of all hosts up. One for which that fails keeps those that are
// known. The error is the worst: a failure rather than that there is nothing.
func (l *lookup) hosts(ctx context.Context, server string, hosts []string, known map[string][]netip.Addr) (map[string]addresses, error) {
	ctx, cancel := context.WithTimeout(ctx, l.Timeout)
	defer cancel()
	var (
		mu     sync.Mutex
		found  = map[string]addresses{}
		worst  error
		wg     sync.WaitGroup
		places = make(chan struct{}, atOnce)
	)
	for _, host := range slices.Compact(slices.Sorted(slices.Values(hosts))) {
		places <- struct{}{}
		wg.Go(func() {
			defer func() { <-places }()
			a, err := l.newLookup(server).host(ctx, host)
			mu.Lock()
			defer mu.Unlock()
			if len(known[host]) > 0 && (err != nil && !isNone(err) || a.lacks != FamilyAuto) {
				a, err = addresses{all: known[host], ttl: unknownTTL}, nil
			}
			found[host] = a
			if err != nil && (worst == nil || isNone(worst)) {
				worst = fmt.Errorf("target of an SRV record: %w", err)
			}
		})
	}
	wg.Wait()
	return found, worst
}
