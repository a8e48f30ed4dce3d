// Package fault has the faults that the lab injects into a cluster, by name.
//
// A fault is injected with [Fault.Inject]. Whatever it was and however far it
// got, [Heal] repairs the cluster.
package fault

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/quorate/quorate/lab"
	"github.com/quorate/quorate/lab/robustness/client"
)

// defaultHold is how long a fault goes on that is a thing being done, unless the scene says how long.
const defaultHold = 5 * time.Second

// MinMembers is the smallest cluster that the faults are for: of all faults but one
// the largest loss is one member, and a majority must remain.
const MinMembers = 3

// Scene is where a fault happens.
type Scene struct {
	// Cluster that it happens to. All its members must run and be ready.
	Cluster *lab.Cluster
	// Rand chooses the member that it happens to.
	Rand *rand.Rand
	// Note is called with a few words for what is being done.
	Note func(text string)
	// Hold is how long a fault goes on that is a thing being done rather than a state,
	// such as defragmentation. Default 5 s. The caller holds the others.
	Hold time.Duration
	// Front is how clients reach the cluster, nil if by the members' endpoints.
	Front *Front
	// Store is that of the client whose calls are measured. Only the faults that also load it need one.
	Store client.Store
	// Join connects another client of the process, with a TLS configuration or with that of
	// the others. Nil for a scene that has other clients already.
	Join func(*tls.Config) (Client, error)
}

// Client is one that works beside those that are measured.
type Client struct {
	Store client.Store
	Close func() error
}

// hold returns how long a fault goes on that is a thing being done.
func (s Scene) hold() time.Duration { return cmp.Or(s.Hold, defaultHold) }

// Fault is something that goes wrong.
type Fault struct {
	// Name by which it is chosen, in lower case with hyphens.
	Name string
	// Summary says in half a sentence what happens.
	Summary string
	// Held is how long it is held by default, 0 if the run decides.
	Held time.Duration
	// Site is the cluster that it happens to.
	Site Site

	inject injection
}

// Inject makes the fault happen and returns when it has. An error says what
// could not be done; part of the fault may then be in force, and Heal is due
// all the same.
func (f Fault) Inject(ctx context.Context, s Scene) error {
	if err := f.inject(ctx, s); err != nil {
		return fmt.Errorf("inject %s: %w", f.Name, err)
	}
	return nil
}

// Default returns the faults of a run that names none, in the order in which it
// injects them.
func Default() []Fault {
	return []Fault{
		{Name: "kill", Summary: "a follower is killed (SIGKILL) and restarted at the end", inject: onFollower("is killed", kill)},
		{Name: "stop", Summary: "a follower is stopped (SIGSTOP): its connections stay, it answers nothing", inject: onFollower("is stopped", stop)},
		{Name: "blackhole", Summary: "the clients' link to a follower takes bytes and delivers none", inject: onFollower("is blackholed for clients", silence)},
		{Name: "partition", Summary: "a follower is cut off from the other members, clients still reach it", inject: onFollower("is cut off from the other members", isolate)},
		{Name: "slow", Summary: "everything a follower sends, to clients and members, arrives 200 ms later", inject: onFollower(fmt.Sprintf("sends everything %v late", slowness), slow)},
		{Name: "leader-kill", Summary: "the leader is killed (SIGKILL) and restarted at the end", inject: onLeader("is killed", kill)},
		{Name: "rolling-restart", Summary: "each member in turn is terminated gracefully and restarted", inject: rollingRestart},
	}
}

// All returns every fault: the default ones, and those that happen only when they are
// named.
func All() []Fault {
	return slices.Concat(Default(), named(), networks(), experiments())
}

// named returns faults that happen only when they are named, for any cluster.
func named() []Fault {
	return []Fault{
		{Name: "defrag", Summary: "a follower is defragmented, over and over", inject: onFollower("is defragmented, over and over", defrag)},
		{Name: "leader-stop", Summary: "the leader is stopped (SIGSTOP): its connections stay, it answers nothing", inject: onLeader("is stopped", stop)},
		{Name: "leader-blackhole", Summary: "the clients' link to the leader takes bytes and delivers none", inject: onLeader("is blackholed for clients", silence)},
		{Name: "leader-partition", Summary: "the leader is cut off from the other members, clients still reach it", inject: onLeader("is cut off from the other members", isolate)},
		{Name: "leader-move", Summary: "leadership moves to a follower", inject: moveLeader},
		{Name: "majority-lost", Summary: "a majority is killed; one of them comes back after 3 s, the others at the end", inject: majorityLost},
	}
}

// Names returns the names of all faults.
func Names() []string {
	all := All()
	names := make([]string, len(all))
	for i, f := range all {
		names[i] = f.Name
	}
	return names
}

// Parse returns the faults of the given names, in their order; those of [Default]
// for no names. A name may occur twice. The error of an unknown name lists those
// that there are.
func Parse(names []string) ([]Fault, error) {
	if len(names) == 0 {
		return Default(), nil
	}
	var faults []Fault
	for _, name := range names {
		i := slices.IndexFunc(All(), func(f Fault) bool { return f.Name == name })
		if i < 0 {
			return nil, fmt.Errorf("unknown fault %q: the faults are %s", name, strings.Join(Names(), ", "))
		}
		faults = append(faults, All()[i])
	}
	return faults, nil
}
