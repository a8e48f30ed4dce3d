// Package introspect reports the present state of the etcd clients and gRPC channels of a process:
// endpoints with state, evidence and share of the calls, in-flight calls, watches with their lag, leases
// with their remaining time, budgets, and the configuration.
//
//	mux.Handle("/debug/etcd", introspect.Handler(introspect.Options{}, map[string]introspect.Source{"orders": client}))
//
// [Channels] are the gRPC channels of any service, which quorate.Channel adds to its Report.
//
// A browser gets a self-contained page, other clients get a [Report] as JSON. Restrict
// access to operators: the report has endpoints, methods and server errors.
//
// # Cost
//
// Data is collected only for a request. A report takes the locks of the in-flight calls, the
// watches and the leases one after the other, each while it iterates over them. This takes about
// 0.3 ms for a thousand watches. Lists hold the [Options.Limit] most important entries; totals
// count all.
//
// # Secrets
//
// A report holds no value, token, password, private key or certificate. It names the keys of
// elections, those of watches only with [Options.Keys].
package introspect
