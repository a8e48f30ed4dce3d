package resolvers

import (
	"sync"
	"time"

	"google.golang.org/grpc/resolver"
)

// removalDelay is the MassRemovalDelay of the resolvers.
const removalDelay = 4 * time.Second

// source is the source of a resolver, with its faults. Errors of its functions end them, see package fatal.
type source struct {
	// builder returns a builder as a process has one, and targets for its channels.
	builder func(removalDelay time.Duration) (builder resolver.Builder, targets []string, err error)
	// list makes the source list these backends.
	list func(addresses []string)
	// faults are the faults that the source can have.
	faults []sourceFault
}

// sourceFault is a fault of a source.
type sourceFault struct {
	name       string
	begin, end func()
	// listed, if set, is how many of all backends the source lists meanwhile.
	listed func(all int) int
}

// sources start the source of each resolver, which ends with the workload.
var sources = map[string]func(*trial) *source{"dns": newDNS, "etcd": newEtcd, "kubernetes": newKubernetes}

// falseLists are faults that every source can have. Each lists fewer than half of the backends.
func falseLists() []sourceFault {
	nothing := func() {}
	return []sourceFault{
		{name: "names-nothing", begin: nothing, end: nothing, listed: func(int) int { return 0 }},
		{name: "names-a-part", begin: nothing, end: nothing, listed: func(all int) int { return all / 3 }},
	}
}

// arrivals has the times at which requests and connections arrived at a source.
type arrivals struct {
	mu sync.Mutex
	at []time.Time
}

func (a *arrivals) add(at time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.at = append(a.at, at)
}

// within returns how many arrived within a time from a moment on.
func (a *arrivals) within(from time.Time, length time.Duration) (n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, at := range a.at {
		if since := at.Sub(from); since >= 0 && since < length {
			n++
		}
	}
	return n
}
