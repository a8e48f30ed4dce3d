// Package calls measures what a call costs through a client, on real members, which are processes of their own. A round
// has a turn of each client in random order; results are medians of the rounds, and ratios are those within a round.
//
//	go test ./lab/bench/calls -run '^$' -bench '/(near|tls|members)$' -benchtime 61x -timeout 2h     what `make bench-calls` runs
//	go test ./lab/bench/calls -run '^$' -bench /observed/get/callers=64 -benchtime 41x -results out.json
//
// Tables for docs/performance.md and docs/observing.md come last on the standard output. -results appends a line of JSON for
// each case and client to a file.
package calls

import (
	"context"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/quorate/quorate/lab"
)

var resultsFile = flag.String("results", "", "append results to this `file`, a line of JSON for each case and client")

func TestMain(m *testing.M) {
	lab.Main()
	goleak.VerifyTestMain(m, goleak.Cleanup(func(status int) {
		for _, t := range tables {
			t.print(os.Stdout)
		}
		os.Exit(status)
	}))
}

// kind is what a call does.
type kind int

const (
	get kind = iota
	getSerializable
	getPrefix
	put
	txn // a put if the key exists, a get if not
)

// operation is a call that many callers make.
type operation struct {
	name    string
	kind    kind
	keys    []string // the callers share them
	value   string
	most    int // calls of a caller in a turn; 0 for no bound
	callers []int
}

// call makes the call of one caller.
type call func(ctx context.Context, caller int) error

var (
	oneKey = []string{"/bench/key"}
	small  = strings.Repeat("v", 64)
	large  = strings.Repeat("v", 1<<20)
)

// many returns the names of n keys.
func many(prefix string, n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("%s%05d", prefix, i)
	}
	return names
}

// rangePrefix has rangeKeys keys of small values.
const (
	rangePrefix = "/bench/range/"
	rangeKeys   = 10_000
)

// group is a set of operations that are measured on one cluster with the same clients.
type group struct {
	name       string
	cluster    clusterConfig
	clients    func(testing.TB, *lab.Cluster, []string) []client
	operations []operation
	table      *table
}

func groups() []group {
	near := []operation{
		{name: "get", kind: get, keys: oneKey, value: small, callers: []int{1, 64, 256, 1000}},
		{name: "put", kind: put, keys: oneKey, value: small, callers: []int{1, 64, 256, 1000}},
		{name: "txn", kind: txn, keys: oneKey, value: small, callers: []int{1, 64}},
		{name: "range of 10,000 keys", kind: getPrefix, keys: []string{rangePrefix}, callers: []int{1, 16}},
		{name: "get of 1 MiB", kind: get, keys: []string{"/bench/large"}, value: large, callers: []int{1, 16}},
		{name: "put of 1 MiB", kind: put, keys: []string{"/bench/large"}, value: large, most: 4, callers: []int{1}},
	}
	few := []operation{
		{name: "get", kind: get, keys: oneKey, value: small, callers: []int{1, 64}},
		{name: "put", kind: put, keys: oneKey, value: small, callers: []int{1, 64}},
	}
	all := many("/bench/", 1000)
	shared := []operation{
		{name: "get of one key", kind: get, keys: oneKey, value: small, callers: []int{1, 64, 1000}},
		{name: "get of a key each", kind: get, keys: all, value: small, callers: []int{1, 64, 1000}},
		{name: "put of a key each", kind: put, keys: all, value: small, callers: []int{1, 64, 1000}},
	}
	far := []operation{
		{name: "get of a key each", kind: get, keys: all, value: small, callers: []int{1, 16, 64, 1000}},
		{name: "put of a key each", kind: put, keys: all, value: small, callers: []int{1, 16, 64, 1000}},
	}
	distant := []operation{
		{name: "put", kind: put, keys: oneKey, value: small, callers: []int{1}},
		{name: "get, linearizable", kind: get, keys: oneKey, value: small, callers: []int{1}},
		{name: "get, serializable", kind: getSerializable, keys: oneKey, value: small, callers: []int{1}},
	}
	const oneWay = 5 * time.Millisecond
	return []group{
		{"near", clusterConfig{Members: 1}, stubAndClients, near, besideStub},
		{"minimal", clusterConfig{Members: 1}, minimalAndClients, few, besideMinimal},
		{"tls", clusterConfig{Members: 1, TLS: true}, stubAndClients, few, besideStub},
		{"members", clusterConfig{Members: 3}, stubAndClients, few, besideStub},
		{"shared", clusterConfig{Members: 1}, sharedRPCs, shared, besideAlone},
		{"far", clusterConfig{Members: 1, ToClient: oneWay}, sharedRPCs, far, besideAlone},
		{"distant", clusterConfig{Members: 3, BetweenMembers: oneWay}, strategies, distant, latencies},
		{"once", clusterConfig{Members: 3}, executedOnce, shared[2:], besidePlain},
		{"observed", clusterConfig{Members: 1}, observers, few[:1], besideUnobserved},
	}
}

// turn is how long one client is measured at a time.
const turn = 100 * time.Millisecond

func BenchmarkCalls(b *testing.B) {
	for _, g := range groups() {
		b.Run(g.name, func(b *testing.B) {
			clients := g.start(b)
			for _, o := range g.operations {
				for _, callers := range o.callers {
					b.Run(fmt.Sprintf("%s/callers=%d", unit(o.name), callers), func(b *testing.B) {
						m := newMeasurement(clients, o, callers)
						for b.Loop() {
							m.round(b, turn)
						}
						g.report(b, m)
					})
				}
			}
		})
	}
}
