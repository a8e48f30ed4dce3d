package resolvers

import (
	"time"

	"google.golang.org/grpc/resolver"
)

// removalDelay is the MassRemovalDelay of the resolvers.
const removalDelay = 4 * time.Second

// source is the source of a resolver, with its faults. Errors of its functions end them, see package fatal.
type source struct {
	// builder returns a builder as a process has one, and targets are those of its channels.
	builder func(removalDelay time.Duration) (resolver.Builder, error)
	targets []string
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
