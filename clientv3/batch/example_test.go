package batch_test

import (
	"context"
	"fmt"
	"sync"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/batch"
	"github.com/quorate/quorate/clientv3/internal/clienttest"
)

// Many goroutines read and write through one client, and share its RPCs.
func ExampleNew() {
	client, stop := clienttest.Example(1)
	defer stop()
	ctx := context.Background()
	client.KV = batch.New(client.KV, batch.Config{JoinReads: true, GroupWrites: true})

	var work sync.WaitGroup
	for i := range 100 {
		work.Go(func() {
			if _, err := client.Put(ctx, fmt.Sprintf("sensor/%d", i), "20.5"); err != nil {
				panic(err)
			}
			if _, err := client.Get(ctx, "interval"); err != nil {
				panic(err)
			}
		})
	}
	work.Wait()
	sensors, err := client.Get(ctx, "sensor/", clientv3.WithPrefix(), clientv3.WithCountOnly())
	if err != nil {
		panic(err)
	}
	fmt.Println(sensors.Count, "sensors")
	// Output: 100 sensors
}
