// Package controller reconciles a system with its desired state in etcd: it calls a function for each key that
// changes, again after an error, and periodically for all keys.
//
//	in, err := cache.NewInformer(c, cache.InformerConfig[Job]{Decode: decode})
//	…
//	err = controller.Run(ctx, in, controller.Config[Job]{Workers: 4}, func(ctx context.Context, key string) error {
//		job, ok := in.Get(key)
//		…
//	})
//
// [Run] has a queue of keys like client-go's util/workqueue: deduplicated, first in first out, with a backoff for each key that
// fails and a rate for the retries of all.
//
// It costs the cluster only what the cache of the informer costs: one watch for each prefix, however many controllers run
// over it. Reads of the informer cost nothing.
package controller
