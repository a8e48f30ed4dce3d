// Package resolver is a gRPC resolver for endpoints that are registered in etcd, with package
// endpoints or package resolver/etcd of this module:
//
//	builder, err := resolver.NewBuilder(client)
//	…
//	conn, err := grpc.NewClient("etcd:///billing", grpc.WithResolvers(builder), …)
//
// # Targets
//
// The scheme is "etcd", and the name of the service is the path without its first slash:
// "etcd:///billing", "etcd:billing" and "etcd://anything/billing" all mean "billing", and
// "etcd:///eu/billing" means "eu/billing". An authority and a query are ignored: the client given
// to NewBuilder determines the cluster.
//
// # Keys and values
//
// The endpoints of the service "billing" are the keys that begin with "billing/". The value has the
// format of the official client (naming/endpoints), so that programs with either client find each
// other:
//
//	{"Op":0,"Addr":"10.0.0.7:443","Metadata":{"weight":2,"additionalAddresses":["[fd00::7]:443"],"zone":"a"}}
//
// Metadata is any JSON. If it is an object, two members have a meaning: "weight", a whole
// number from 1, see balancer.SetWeight, and "additionalAddresses", an array of strings, for
// servers with several addresses. Such members with values of another type are ignored. All
// metadata is passed on unchanged. Programs with the official client see both members in the
// metadata, and connect to Addr only.
//
// # Endpoints
//
// Each key becomes one resolver.Endpoint with all its addresses. With New they are in the order of
// the keys. With NewBuilder every channel has a random order, which it keeps until it is idle, so
// that channels which use the first address, as gRPC's do by default, are spread over all servers.
//
// If several keys have the same first address, the latest written one counts. The weight is set
// with balancer.SetWeight; [Key] and [Metadata] return the rest. A value that is invalid or has
// no address is skipped with a warning in the etcd client's log; if the key had a valid value
// before, that one stays. Equal lists are published once.
//
// # Faults
//
// Changes reach the channel within milliseconds. Under continuous changes the resolver spends
// at most a fifth of the time on building lists, and a channel gets the latest list once it
// has processed the previous one. If the watch cannot resume because of a compaction, the
// endpoints are read again.
//
// All channels of a builder share one watch for each service. A channel that opens or leaves
// idle mode waits for etcd for at most 0.3 s, then gets the builder's last list, which is
// kept for an hour after the last channel to a service.
//
// With [New], endpoints of which more than half disappear at once stay for
// [Config].MassRemovalDelay, also for channels that open meanwhile.
//
// An empty list is published and reported as an error, so that calls fail at once unless
// they wait for ready. Their error has the reason if the policy passes it on, as the
// quorate_ policies and pick_first do; gRPC's round_robin returns "no children to pick from"
// instead. With the official client they wait for the first endpoint until their deadline, as they
// do here with grpc.WaitForReady; and there Build blocks.
//
// While etcd is unreachable the channel keeps the last list. After a second the outage is
// reported, with a line in gRPC's log at its beginning and at its end. It is derived from the
// health of the client's endpoints and costs no request. Refused connections or a missing
// leader are detected soon. If all members are silent, their connections and the attempts to
// replace them must time out first: that takes 50 s with one member, and up to 90 s with three.
//
// After an outage the list is up to date about a second after the client has reconnected. Its
// attempts to connect are at most 15 s apart.
package resolver
