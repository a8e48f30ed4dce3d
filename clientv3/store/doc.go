// Package store reads and writes keys as values of a Go type.
//
//	configs := store.New(client, "config/", store.JSON[Config]())
//	cfg, err := configs.Get(ctx, "web")
//	cfg, err = configs.Update(ctx, "web", func(c Config) (Config, error) {
//		c.Replicas++
//		return c, nil
//	})
//	for change, err := range configs.Watch(ctx) {
//
// A [Store] has the keys below a prefix, which its methods take and return without the prefix. It works over any
// clientv3.KV: a client, package cache, namespace or idempotent, and Term.KV of package leaderelection.
//
// # Conditional writes
//
// [Store.Create], [Store.Update] and [Store.DeleteUnmodified] write only if the key is as it was read. If a fault loses the
// answer, Update and DeleteUnmodified send the same request again: of all copies at most one is executed, because the key never
// has that revision again. If the key has changed by then, they compare the first change since the read, which they look up in
// the history, with their own. An equal one counts as their own; so where two equal writes are not one, as with counters, write
// over package idempotent, which knows. The outcome stays unknown (retry.OutcomeOf) only if ctx ends before an answer, the
// client is closed, the history is compacted, a server refuses a repetition, or the answer is larger than the client accepts.
// Without an answer they go on until ctx ends: give it a deadline.
//
// A write that creates a key, of Create or [Store.CreateOrUpdate], is sent once: when another client has deleted the key, a second
// copy would create it again. After a lost answer its outcome is unknown, and it may be executed later. Over package idempotent
// it is known, unless that has lost the response, too (retry.ResponseLostError).
//
// [Store.Put], [Store.Delete] and [Txn] are sent as the KV sends them: over a plain client, the outcome of a lost
// answer is unknown; over package idempotent it is known.
//
// # Errors
//
// Each error of a [Store] is an [*Error], which names the key and the codec. [Txn] returns that of the function, or of the
// requests, as it is. Use errors.Is for [ErrNotFound], [ErrExists],
// [ErrModified], [ErrDecode], and for errors of the server and of ctx. A value that cannot be decoded ends no loop: [Store.All] and
// [Store.Watch] yield an error for its key, and go on.
package store
