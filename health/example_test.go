package health_test

import (
	"errors"
	"fmt"
	"time"

	"github.com/quorate/quorate/health"
)

// A client notes evidence about its endpoints; subscribers get the changes of state.
func ExampleTable() {
	table := health.NewTable()
	a := table.Acquire("", "10.0.0.1:2379")
	defer a.Release()
	b := table.Acquire("", "10.0.0.2:2379")
	defer b.Release()
	show := func(c health.Change) { fmt.Printf("%s: %v to %v (%v)\n", c.Endpoint, c.From, c.To, c.Evidence) }
	defer a.Subscribe(show)()
	defer b.Subscribe(show)()

	now := time.Now()
	a.Note(health.Evidence{Kind: health.Answered, At: now})
	b.Note(health.Evidence{Kind: health.Degrading, At: now, Detail: "no leader", Err: errors.New("etcdserver: no leader")})
	a.Note(health.Evidence{Kind: health.Suspicious, At: now, Detail: "no answer to Range for 310ms"})
	a.Note(health.Evidence{Kind: health.Unresponsive, At: now})

	for _, s := range table.All() {
		fmt.Printf("%s is %v, last error: %v\n", s.Endpoint, s.State, s.LastErr)
	}
	// Output:
	// 10.0.0.1:2379: unknown to serving (answered)
	// 10.0.0.2:2379: unknown to degraded (degrading: no leader: etcdserver: no leader)
	// 10.0.0.1:2379: serving to suspected (suspicious: no answer to Range for 310ms)
	// 10.0.0.1:2379: suspected to dead (unresponsive)
	// 10.0.0.1:2379 is dead, last error: <nil>
	// 10.0.0.2:2379 is degraded, last error: etcdserver: no leader
}

// The transitions can be used without a table.
func ExampleRecord_Next() {
	var r health.Record
	at := time.Now()
	for _, k := range []health.Kind{health.Served, health.Suspicious, health.Stalled, health.Degrading, health.Served} {
		r = r.Next(health.Evidence{Kind: k, At: at})
		fmt.Printf("%v: %v\n", k, r.State)
	}
	// Output:
	// served: serving
	// suspicious: suspected
	// stalled: lagging
	// degrading: degraded
	// served: serving
}

// Calls of a shape that takes 40 ms are hedged after 60 ms.
func ExampleLatency() {
	var reads health.Latency
	fmt.Println(reads.HedgeAfter(), reads.SuspectAfter())
	for range 200 {
		reads.Observe(40 * time.Millisecond)
	}
	fmt.Println(reads.HedgeAfter(), reads.SuspectAfter())
	// Output:
	// 250ms 400ms
	// 60ms 120ms
}

// The silence of a stream with a message every 100 ms is checked after 400 ms.
func ExamplePace() {
	var p health.Pace
	opened := time.Now()
	now := opened
	for range 50 {
		now = now.Add(100 * time.Millisecond)
		p.Observe(now)
	}
	due := p.DueAt(opened)
	fmt.Println(due.Sub(now).Round(time.Millisecond))

	// The check shows that all is well: there just are no events.
	p.Checked(due)
	fmt.Println(p.DueAt(opened).Sub(due).Round(time.Millisecond))
	// Output:
	// 400ms
	// 800ms
}
