package cases

import (
	"context"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	"github.com/quorate/quorate/lab/internal/fatal"
)

// shared is the prefix that the watches to resume watch.
const shared = Prefix + "shared/"

// watchShared makes n watches of the shared prefix, all at the same time.
func watchShared(ctx context.Context, c *clientv3.Client, n int) []clientv3.WatchChan {
	watches := make([]clientv3.WatchChan, n)
	callers := startCallers(n)
	defer callers.stop()
	callers.watchAll(c, watches, func(int) target {
		return target{ctx: ctx, key: shared, opts: []clientv3.OpOption{clientv3.WithPrefix()}}
	})
	return watches
}

// resumeWatches makes watches with the endpoint of one member, gives the client those of all three, and has the first killed (if it
// led, another one leads before). The time is that from the end of the client's connection to it until other members have created,
// after that, as many watches as it served, both as gRPC's stats handler sees them. A put must then reach every watch once.
func resumeWatches(ctx context.Context, site Site) Sample {
	seen := &eventLog{}
	all := site.Endpoints
	site.Endpoints = all[:1]
	c := openConnected(ctx, site, grpc.WithStatsHandler(seen))
	defer func() { _ = c.Close() }()
	watches := watchShared(ctx, c, site.Size)
	c.SetEndpoints(all...)
	connected := make(map[string]bool)
	fatal.OK(seen.await(ctx, len(all), func(e event) bool {
		first := e.what == connBegun && !connected[e.address]
		connected[e.address] = connected[e.address] || first
		return first
	}))
	deliver(ctx, c, watches, "before")
	_, serving, _ := strings.Cut(all[0], "://")
	took := killServing(ctx, site.Control, seen, serving, len(watches)+1) // with that of openConnected
	deliver(ctx, c, watches, "after the member was killed")
	return Sample{"time-s": took.Seconds()}
}

// killServing kills the member that serves the watches and returns how long after the
// loss of the connection to it the last of them was created elsewhere.
func killServing(ctx context.Context, control Control, seen *eventLog, address string, watches int) time.Duration {
	asked := time.Now()
	fatal.If(control.Kill(ctx, address))
	lost := fatal.OK(seen.await(ctx, 1, func(e event) bool {
		return e.what == connEnded && e.address == address && !e.at.Before(asked)
	}))
	resumed := fatal.OK(seen.await(ctx, watches, func(e event) bool {
		return e.what == watchCreated && e.address != address && !e.at.Before(lost)
	}))
	return resumed.Sub(lost)
}

// deliver puts a key that all watches watch and returns when all have delivered it.
func deliver(ctx context.Context, c *clientv3.Client, watches []clientv3.WatchChan, name string) {
	resp := fatal.OK(c.Put(ctx, shared+name, "value"))
	for _, w := range watches {
		fatal.If(expect(w, shared+name, resp.Header.Revision))
	}
}
