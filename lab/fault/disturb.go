package fault

import (
	"context"
	"slices"
	"time"

	"github.com/quorate/quorate/lab/link"
)

// clientDelay is what the links of all clients add in the fault of that name.
const clientDelay = 100 * time.Millisecond

// Disturbances returns the faults of a storm: those that all clusters can have and that keep little
// of a storm busy, and others that are harder or that leave nothing to measure. A rolling restart takes too much of a
// storm, because a member that has watches open takes seven seconds to end when it
// is asked to; the fault terminate does it to one member instead.
func Disturbances() []Fault {
	return append(
		slices.DeleteFunc(slices.Concat(Default(), named(), lostFlows(), flaps()), func(f Fault) bool { return f.Name == "rolling-restart" }),
		Fault{Name: "terminate", Summary: "a member is terminated gracefully and restarted at the end", inject: terminateOne},
		Fault{Name: "no-quorum", Summary: "every member is cut off from the others", inject: noQuorum},
		Fault{Name: "all-killed", Summary: "all members are killed (SIGKILL) and restarted at the end", inject: allKilled},
		Fault{Name: "clients-cut", Summary: "the clients' links to all members are cut", inject: onClientLinks("are cut", (*link.Link).Cut)},
		Fault{
			Name: "clients-delayed", Summary: "the clients' links to all members add 100 ms each way",
			inject: onClientLinks("are delayed", func(l *link.Link) { l.Delay(link.Both, clientDelay) }),
		},
		Fault{
			Name: "clients-deaf", Summary: "the clients' links carry nothing to clients",
			inject: onClientLinks("carry nothing to clients", func(l *link.Link) { l.Blackhole(link.Reverse) }),
		},
	)
}

func terminateOne(ctx context.Context, s Scene) error {
	members := s.Cluster.Members()
	m := members[s.Rand.IntN(len(members))]
	s.Note(m.Name() + " is terminated")
	return terminate(ctx, m)
}

func noQuorum(_ context.Context, s Scene) error {
	s.Note("every member is cut off from the others")
	for _, m := range s.Cluster.Members() {
		s.Cluster.Isolate(m)
	}
	return nil
}

func allKilled(_ context.Context, s Scene) error {
	s.Note("all members are killed")
	for _, m := range s.Cluster.Members() {
		if err := m.Kill(); err != nil {
			return err
		}
	}
	return nil
}

// onClientLinks returns a fault of the clients' links to all members.
func onClientLinks(what string, do func(*link.Link)) injection {
	return func(_ context.Context, s Scene) error {
		s.Note("the clients' links " + what)
		for _, m := range s.Cluster.Members() {
			do(s.Cluster.ClientLink(m))
		}
		return nil
	}
}
