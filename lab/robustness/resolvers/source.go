package resolvers

import (
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc/resolver"

	"github.com/quorate/quorate/resolver/static"
)

// removalDelay is the MassRemovalDelay of the resolvers.
const removalDelay = 4 * time.Second

// source is what a resolver reads, with its faults. It may be nil if it could not be started.
type source struct {
	// builder returns a builder as a process has one, and targets for its channels.
	builder func(removalDelay time.Duration) (builder resolver.Builder, targets []string, err error)
	// list has the source name these backends. An error, as if the source is away, is fatal.
	list func(addresses []string)
	// faults are those that the source can have.
	faults []sourceFault
	// extraTime is how much longer than Config.bound a change takes by the resolver's
	// configuration.
	extraTime time.Duration
	// close ends the source, and what its builders hold.
	close func() error
}

// newStatic returns a target that lists the backends. It has no faults, and its list never
// changes; channels come and go.
func newStatic() *source {
	var target string
	return &source{
		builder: func(time.Duration) (resolver.Builder, []string, error) {
			b, err := static.NewBuilder(static.Config{})
			return b, []string{target}, err
		},
		list:  func(addresses []string) { target = "static:///" + strings.Join(addresses, ",") },
		close: nothing,
	}
}

// sourceFault is a fault of a source.
type sourceFault struct {
	name       string
	begin, end func() error
	// changeable tells that the list of the source can be changed during the fault.
	changeable bool
	// extraTime is how much longer a change may take after this fault by the resolver's
	// configuration.
	extraTime time.Duration
	// falseList, if set, returns the backends that the source lists meanwhile.
	falseList func(all []string) []string
}

func nothing() error { return nil }

// falseLists are faults that every source can have. Each lists fewer than half of the backends.
func falseLists() []sourceFault {
	return []sourceFault{
		{name: "names-nothing", begin: nothing, end: nothing, falseList: func([]string) []string { return nil }},
		{name: "names-a-part", begin: nothing, end: nothing, falseList: func(all []string) []string { return all[:len(all)/3] }},
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

// sorted returns them in their order.
func (l *log) sorted() []time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	slices.SortFunc(l.at, time.Time.Compare)
	return slices.Clone(l.at)
}
