// Package introspect shows what the clients of a process know and do at the moment: their
// endpoints with state and evidence, calls in flight, watches with their lag, leases with
// the time that is left to them, budgets, and the configuration in force.
//
//	mux.Handle("/debug/etcd", introspect.Handler(introspect.Options{}, map[string]introspect.Source{"orders": client}))
//
// A browser gets a page, which needs nothing from elsewhere, and everybody else JSON, a
// [Report]. Mount it where operators reach it and others do not: it names endpoints and
// methods, and errors of servers.
//
// # Cost
//
// Nothing is collected until somebody asks. A report takes the locks of the in-flight
// calls, the watches and the leases one after the other, each for as long as it takes to walk
// over them. All of it takes about 0.3 ms for a thousand watches. Lists hold the [Options.Limit] entries that
// matter most; totals count all.
//
// # Secrets
//
// A report holds no value, token, password, key or certificate. It holds the keys of
// watches only if [Options.Keys] asks for them.
package introspect
