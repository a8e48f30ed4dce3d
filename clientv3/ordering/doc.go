// Package ordering ensures monotonic reads: no response is older than one that the
// client has received before.
//
// Linearizable reads never go back. A member answers serializable reads
// ([clientv3.WithSerializable]) from its own state; a partitioned member returns
// old data.
//
//	client.KV = ordering.NewKV(client.KV, ordering.NewOrderViolationSwitchEndpointClosure(client))
//
// A wrapped KV records the highest revision of all responses, and compares each response
// with the revision recorded when its request began. If the response is older, the
// [OrderViolationFunc] decides. If the store itself has gone back, reads fail with a
// *clientv3.ClusterChangedError, see [NewKV].
package ordering
