package clientv3_test

import (
	"context"
	"errors"
	"fmt"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/internal/clienttest"
)

// The state of some keys, and every later change: read them, then watch from the revision after
// that of the read.
func ExampleWatcher_Watch() {
	client, stop := clienttest.Example(3)
	defer stop()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()

	if _, err := client.Put(ctx, "config/color", "blue"); err != nil {
		panic(err)
	}
	state, err := client.Get(ctx, "config/", clientv3.WithPrefix())
	if err != nil {
		panic(err)
	}
	changes := client.Watch(ctx, "config/", clientv3.WithPrefix(), clientv3.WithRev(state.Header.Revision+1))

	if _, err := client.Put(ctx, "config/color", "green"); err != nil {
		panic(err)
	}
	if _, err := client.Delete(ctx, "config/color"); err != nil {
		panic(err)
	}
	for seen := 0; seen < 2; {
		resp := <-changes
		if err := resp.Err(); err != nil {
			panic(err)
		}
		for _, ev := range resp.Events {
			fmt.Printf("%s %s %s\n", ev.Type, ev.Kv.Key, ev.Kv.Value)
			seen++
		}
	}
	// Output:
	// PUT config/color green
	// DELETE config/color
}

// A watch ends when its next revision is compacted. Then the program reads the keys again, and
// watches from there.
func ExampleWatchResponse_Err() {
	client, stop := clienttest.Example(3)
	defer stop()
	ctx := context.Background()

	var last int64
	for range 5 {
		resp, err := client.Put(ctx, "key", "value")
		if err != nil {
			panic(err)
		}
		last = resp.Header.Revision
	}
	if _, err := client.Compact(ctx, last); err != nil {
		panic(err)
	}
	for resp := range client.Watch(ctx, "key", clientv3.WithRev(1)) {
		if errors.Is(resp.Err(), rpctypes.ErrCompacted) {
			fmt.Println("history begins at", resp.CompactRevision, "now")
		}
	}
	// Output:
	// history begins at 6 now
}

// A progress notification has the revision up to which a watch has delivered everything, even if
// nothing has changed.
func ExampleWatcher_RequestProgress() {
	client, stop := clienttest.Example(3)
	defer stop()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()

	changes := client.Watch(ctx, "quiet")
	put, err := client.Put(ctx, "other", "value")
	if err != nil {
		panic(err)
	}
	if err := client.RequestProgress(ctx); err != nil {
		panic(err)
	}
	resp := <-changes
	fmt.Println(resp.IsProgressNotify(), resp.Header.Revision >= put.Header.Revision)
	// Output:
	// true true
}

// A cluster that was restored from a backup lacks later writes. A program that keeps a copy of
// keys reads them again, and watches from there.
func ExampleClusterChangedError() {
	client, stop := clienttest.Example(3)
	defer stop()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()

	follow := func() error {
		state, err := client.Get(ctx, "config/", clientv3.WithPrefix())
		if err != nil {
			return err
		}
		// … replace the copy by state.Kvs
		for resp := range client.Watch(ctx, "config/", clientv3.WithPrefix(), clientv3.WithRev(state.Header.Revision+1)) {
			if err := resp.Err(); err != nil {
				return err
			}
			// … apply resp.Events
		}
		return ctx.Err()
	}
	cancel() // the example ends here
	for {
		changed, ok := errors.AsType[*clientv3.ClusterChangedError](follow())
		if !ok {
			break
		}
		fmt.Printf("from revision %d to %d: all is read again\n", changed.OldRevision, changed.NewRevision)
	}
	// Output:
}
