package behaviours

import (
	"context"
	"slices"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/quorate/quorate/lab/behaviours/transcript"
	"github.com/quorate/quorate/lab/servers/site"
)

// All is the corpus: the rows of docs/servers.md, in order, and the behaviours that are only recorded.
var All = slices.Concat(
	in(site.None, offline), in(site.Single, single), in(site.Several, several),
	keys, idempotentRows, watches, leaseRows, locks, logins, maintenanceRows, faults,
)

// The setups of rows, by short names.
const (
	plain  = site.Plain
	own    = site.Own
	auth   = site.Auth
	tokens = site.Tokens
	secure = site.TLS
	quota  = site.Quota
)

// on makes a row: a behaviour that checks what it sees, on a server with a setup.
func on(setup site.Setup, area, name string, run func(context.Context, Site)) Behaviour {
	return Behaviour{area, name, setup, 20 * time.Second, func(ctx context.Context, s Site, _ *transcript.Log) { run(ctx, s) }}
}

// using adapts a function that needs only a client to a row.
func using(run func(context.Context, *clientv3.Client)) func(context.Context, Site) {
	return func(ctx context.Context, s Site) { run(ctx, s.client()) }
}

// long makes a row that may take a minute.
func long(b Behaviour) Behaviour {
	b.Limit = time.Minute
	return b
}

// steps makes a behaviour that records each step, to be compared.
func steps(name string, run func(context.Context, Site, *transcript.Log)) Behaviour {
	return Behaviour{Name: name, Limit: behaviourTimeout, run: run}
}

// withClient makes a recorded behaviour of a function that needs only a client.
func withClient(name string, run func(context.Context, *clientv3.Client, *transcript.Log)) Behaviour {
	return steps(name, func(ctx context.Context, s Site, log *transcript.Log) {
		c := s.client()
		defer end(c, log)
		run(ctx, c, log)
	})
}

// row makes a recorded behaviour a row: on every server, the clients' transcripts are compared.
func row(area string, b Behaviour) Behaviour {
	b.Area, b.Setup = area, site.Single
	return b
}

// in gives recorded behaviours their setup.
func in(setup site.Setup, all []Behaviour) []Behaviour {
	for i := range all {
		all[i].Setup = setup
	}
	return all
}

// end closes a client.
func end(c *clientv3.Client, log *transcript.Log) { log.Error("end", c.Close()) }

// Recorded behaviours of one setup run on one new cluster, in their order, so that revisions are the same for both clients.
var (
	offline = []Behaviour{
		steps("op", ops),
		steps("op panics", opPanics),
		steps("compare", compares),
		steps("config", configs),
		steps("new", newErrors),
		steps("unreachable", unreachable),
		steps("wire", wire),
		steps("errors", errorFunctions),
		steps("context client", contextClient),
	}
	single = []Behaviour{
		withClient("stream", streams),
		withClient("limits", limits),
		withClient("ended context", endedContexts),
		withClient("downgrade", downgrades),
		steps("keepalive end", keepAlivesEnd),
		withClient("watch lease", watchLeases),
		withClient("watch late", watchLate),
		withClient("cluster", members),
		withClient("connection", connections),
		withClient("constructors", constructors),
		steps("interceptors", interceptors),
		steps("files", files),
		steps("old cluster", oldCluster),
		steps("close", closes),
	}
	several = []Behaviour{
		withClient("members", severalMembers),
		steps("endpoints", endpoints),
		steps("leadership", leadership),
		steps("outage", outage),
		steps("no quorum", noQuorum),
	}
)
