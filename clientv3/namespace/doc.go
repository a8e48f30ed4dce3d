// Package namespace confines the services of a client to the keys that begin with
// a prefix: requests have it put in front of their keys, responses have it taken
// away.
//
//	client.KV = namespace.NewKV(client.KV, "app/")
//	client.Watcher = namespace.NewWatcher(client.Watcher, "app/")
//	client.Lease = namespace.NewLease(client.Lease, "app/")
//
// From then on client.Put(ctx, "color", "red") writes the key "app/color", and a
// Get of all keys returns those below "app/". Its user cannot tell
// the namespace from a store of its own, except that revisions, compaction and
// leases are those of the whole store.
//
// A prefix is any string of bytes. The empty one changes nothing. The key that
// equals the prefix is outside of the namespace, where it would have an empty name,
// and the server has no empty keys.
//
// Nothing that passes through is changed in place: operations stay the caller's, and
// responses are built again where they hold keys, so that wrapped services may hand
// the same response to several readers. Values are shared, not copied.
package namespace
