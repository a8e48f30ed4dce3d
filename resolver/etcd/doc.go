// Package etcd lets gRPC services find each other through etcd: a resolver for those who
// call, and a registration for those who are called.
//
// A server registers where it can be reached, and withdraws that before it stops:
//
//	registrar, err := etcd.Register(ctx, client, etcd.Registration{
//		Service: "billing", Address: "10.0.0.7:443", Weight: 2,
//	})
//	…
//	err = registrar.Shutdown(ctx, server)
//
// Its callers dial the name of the service:
//
//	builder, err := etcd.NewBuilder(client, etcd.Config{})
//	…
//	conn, err := grpc.NewClient("etcd:///billing", grpc.WithResolvers(builder), …)
//
// # Targets
//
// The name of the service is the path of the target without its first slash: "etcd:///billing"
// means "billing", and "etcd:///eu/billing" means "eu/billing". An authority and a query are
// ignored: it is the client given to NewBuilder that says which cluster is asked.
//
// # Keys and values
//
// The endpoints of the service "billing" are the keys that begin with "billing/". What
// follows the slash only has to be unique, and is the address unless [Registration.Name]
// says otherwise. The value is that of the official client (naming/endpoints), so that
// programs with either of the two find each other:
//
//	{"Op":0,"Addr":"10.0.0.7:443","Metadata":{"weight":2,"additionalAddresses":["[fd00::7]:443"],"zone":"a"}}
//
// Metadata is any JSON. If it is an object, two of its members mean something here: "weight",
// a whole number from 1, which balancer.SetWeight explains, and "additionalAddresses", an
// array of strings, for servers that can be reached at several addresses. Members by these
// names that are something else mean nothing. All metadata is passed on as it is. Readers
// with the official client see both members in the metadata, and connect to Addr alone.
//
// # Endpoints
//
// Each key becomes one resolver.Endpoint with all its addresses, in the order of the keys.
// If several keys have the same first address, the one that was written last counts. The weight
// is set with balancer.SetWeight; [Key] and [Metadata] return the rest. A value that cannot be
// understood, or has no address, is left out with a warning in the etcd client's log; if the key
// had another value before, that one counts on. Lists that are equal are published once.
//
// # Faults
//
// Changes reach the channel within milliseconds. While they come all the time, a fifth of it
// is spent on making lists, and each channel gets the latest when it has taken the one before.
// What a watch needs may be gone when it can go on, because it was compacted: then the
// endpoints are read again.
//
// All channels of a builder share one watch for each service. Neither dialling nor a channel
// that wakes from being idle waits for etcd for more than 0.3 s: it gets the last list of the
// builder, which is kept for an hour after the last channel to a service.
//
// Endpoints that disappear all at once stay for [Config].MassRemovalDelay, for channels that open
// meanwhile as well.
//
// An empty list is published as such and reported, so that calls fail at once, unless they
// wait for ready. What they fail with says why if the policy passes it on, as the quorate_
// policies and pick_first do; gRPC's own round_robin has "no children to pick from" instead.
//
// While etcd is away the channel keeps the last list. After a second of it that is reported,
// and gRPC's log gets a line, and another one when it is over. It is known from what the
// client knows of its endpoints, and costs no request: soon if connections are refused or
// there is no leader; after some 15 s if members only fall silent, because a connection that
// is quiet is asked every ten.
//
// The list is up to date again within a second of etcd's return if it was away for half a
// minute or less, and within three otherwise: that is how often the client tries to connect.
//
// # Stale registrations
//
// A process that dies is gone from the list when its lease ends, at most its TTL and about
// a second later. Until then callers know it by its broken connections: use a policy that does,
// such as quorate_round_robin.
package etcd
