package resolvers

import (
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc/resolver"

	"github.com/quorate/quorate/resolver/static"
)

// removalDelay is the MassRemovalDelay of the resolvers.
const removalDelay = 4 * time.Second

// source is the source of a resolver, with its faults. Errors of its functions end them, see package fatal.
type source struct {
	// builder returns a builder as a process has one, and targets for its channels.
	builder func(removalDelay time.Duration) (builder resolver.Builder, targets []string, err error)
	// list makes the source list these backends.
	list func(addresses []string)
	// faults are those that the source can have.
	faults []sourceFault
	// extraTime is how much longer than Config.bound a change takes by the resolver's
	// configuration.
	extraTime time.Duration
}

// sourceFault is a fault of a source.
type sourceFault struct {
	name       string
	begin, end func()
	// keepsList says that the list of the source cannot be changed during the fault.
	keepsList bool
	// extraTime is how much longer a change may take after this fault by the resolver's
	// configuration.
	extraTime time.Duration
	// falseList, if set, returns the backends that the source lists meanwhile.
	falseList func(all []string) []string
}

// sources start the source of each resolver, which ends with the workload.
var sources = map[string]func(*trial) *source{"dns": newDNS, "etcd": newEtcd, "kubernetes": newKubernetes, "static": newStatic}

// newStatic returns a target that lists the backends. It has no faults, and its list never
// changes; channels come and go.
func newStatic(*trial) *source {
	var target string
	return &source{
		builder: func(time.Duration) (resolver.Builder, []string, error) {
			b, err := static.NewBuilder(static.Config{})
			return b, []string{target}, err
		},
		list: func(addresses []string) { target = "static:///" + strings.Join(addresses, ",") },
	}
}

// falseLists are faults that every source can have. Each lists fewer than half of the backends.
func falseLists() []sourceFault {
	nothing := func() {}
	return []sourceFault{
		{name: "names-nothing", begin: nothing, end: nothing, keepsList: true, falseList: func([]string) []string { return nil }},
		{name: "names-a-part", begin: nothing, end: nothing, keepsList: true, falseList: func(all []string) []string { return all[:len(all)/3] }},
	}
}

// log has the times at which requests and connections arrived at a source.
type log struct {
	mu sync.Mutex
	at []time.Time
}

func (l *log) add(at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.at = append(l.at, at)
}

// within returns how many arrived within a time from a moment on.
func (l *log) within(from time.Time, length time.Duration) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, at := range l.at {
		if since := at.Sub(from); since >= 0 && since < length {
			n++
		}
	}
	return n
}
