// Package ordering keeps a client from going back in time: no response comes from an
// older state of the store than one that was seen before.
//
// Linearizable reads never go back. Serializable ones ([clientv3.WithSerializable])
// are answered by whichever member is asked, from what it has; one that was cut off
// answers from the past.
//
//	client.KV = ordering.NewKV(client.KV, ordering.NewOrderViolationSwitchEndpointClosure(client))
//
// A wrapped KV remembers the highest revision that any response had, and holds every
// response against the revision that was known when its request began. What happens
// to one that is older is for an [OrderViolationFunc] to say. Where the store itself has
// gone back, reads fail with a *clientv3.ClusterChangedError, see [NewKV].
package ordering
