package cases

import (
	"context"
	"runtime"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// idleCallers is how many callers make the watches whose memory is measured.
const idleCallers = 64

// idleWatches measures heap and stacks in use after a garbage collection, and goroutines, of a watch: with all watches less without
// them. Each watch has a key and a cancellable context of its own, made before the measurement. The goroutines that call Watch are
// there before it and after it, so that neither they nor what the runtime keeps of dead ones count.
func idleWatches(ctx context.Context, site Site) Sample {
	c := openConnected(ctx, site)
	defer func() { _ = c.Close() }()
	targets := make([]target, site.Size)
	for i := range targets {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		targets[i] = target{ctx: ctx, key: key(i)}
	}
	watches := make([]clientv3.WatchChan, site.Size)
	callers := startCallers(idleCallers)
	defer callers.stop()

	before := inUse()
	callers.watchAll(c, watches, func(i int) target { return targets[i] })
	after := inUse()

	n := float64(site.Size)
	sample := Sample{
		"memory-KB":  float64(after.bytes-before.bytes) / 1024 / n,
		"goroutines": float64(after.goroutines-before.goroutines) / n,
	}
	runtime.KeepAlive(targets)
	spotCheck(ctx, c, watches)
	return sample
}

// usage is what a process has in use.
type usage struct {
	bytes, goroutines int64
}

// inUse measures after two garbage collections: the second frees what finalizers
// and pools held in the first.
func inUse() usage {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return usage{bytes: int64(m.HeapAlloc + m.StackInuse), goroutines: int64(runtime.NumGoroutine())}
}
