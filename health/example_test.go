package health_test

import (
	"errors"
	"fmt"
	"time"

	"github.com/quorate/quorate/health"
)

// A client that balances notes what it sees of its endpoints, and others follow.
func ExampleTable() {
	table := health.NewTable()
	cancel := table.Subscribe(func(c health.Change) {
		fmt.Printf("%s: %v to %v (%v)\n", c.Endpoint, c.From, c.To, c.Evidence)
	})
	defer cancel()

	a := table.Acquire("10.0.0.1:2379")
	defer a.Release()
	b := table.Acquire("10.0.0.2:2379")
	defer b.Release()

	now := time.Now()
	a.Note(health.Evidence{Kind: health.Answered, At: now})
	b.Note(health.Evidence{Kind: health.Leaderless, At: now, Err: errors.New("etcdserver: no leader")})
	a.Note(health.Evidence{Kind: health.Silent, At: now, Detail: "no answer to Range for 310ms"})
	a.Note(health.Evidence{Kind: health.Missed, At: now})
	a.Note(health.Evidence{Kind: health.Missed, At: now})

	for _, s := range table.All() {
		fmt.Printf("%s is %v, last error: %v\n", s.Endpoint, s.State, s.LastErr)
	}
	// Output:
	// 10.0.0.1:2379: unknown to serving (answered)
	// 10.0.0.2:2379: unknown to no leader (leaderless: etcdserver: no leader)
	// 10.0.0.1:2379: serving to suspected (silent: no answer to Range for 310ms)
	// 10.0.0.1:2379: suspected to dead (probe missed)
	// 10.0.0.1:2379 is dead, last error: <nil>
	// 10.0.0.2:2379 is no leader, last error: etcdserver: no leader
}

// Retries that found no endpoint wait until one is better.
func ExampleTable_Improved() {
	table := health.NewTable()
	e := table.Acquire("10.0.0.1:2379")
	defer e.Release()
	e.Note(health.Evidence{Kind: health.Refusing, At: time.Now()})

	usable := func() bool { return e.Load().State == health.Serving }
	improved := table.Improved() // before looking, so that nothing is missed in between
	for !usable() {
		go e.Note(health.Evidence{Kind: health.Served, At: time.Now()})
		<-improved
		improved = table.Improved()
	}
	fmt.Println(e.Load().State)
	// Output: serving
}

// The transitions can be used without a table.
func ExampleRecord_Next() {
	var r health.Record
	at := time.Now()
	for _, k := range []health.Kind{health.Served, health.Silent, health.Stalled, health.Leaderless, health.Served} {
		r = r.Next(health.Evidence{Kind: k, At: at})
		fmt.Printf("%v: %v\n", k, r.State)
	}
	// Output:
	// served: serving
	// silent: suspected
	// stalled: lagging
	// leaderless: no leader
	// served: serving
}

// A class of calls that take 40 ms is hedged after 60 ms.
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

// A stream with a message every 100 ms is suspicious when it is silent for 200.
func ExampleRhythm() {
	var r health.Rhythm
	now := time.Now()
	for range 50 {
		now = now.Add(100 * time.Millisecond)
		r.Heard(now)
	}
	fmt.Println(r.SuspectAt().Sub(now))

	// A probe shows that all is well: there just are no events.
	now = r.SuspectAt()
	r.Cleared(now)
	fmt.Println(r.SuspectAt().Sub(now))
	// Output:
	// 200ms
	// 400ms
}
