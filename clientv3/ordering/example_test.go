package ordering_test

import (
	"context"
	"errors"
	"fmt"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/internal/clienttest"
	"github.com/quorate/quorate/clientv3/mock/fakeetcd"
	"github.com/quorate/quorate/clientv3/ordering"
)

// newExampleClient returns a client of an etcd that lives in memory, one of whose
// members is behind. A program passes its endpoints to clientv3.New and nothing else.
func newExampleClient() (*clientv3.Client, func()) {
	cluster, client, stop := clienttest.ExampleCluster(3)
	cluster.On("Range", func(call *fakeetcd.Call) {
		if resp, err := call.Execute(); err == nil && call.Member == cluster.Member(1) {
			resp.(*pb.RangeResponse).Header.Revision = 1
		}
	})
	return client, stop
}

// Cheap reads from any member, none of which is older than what the program has seen.
func ExampleNewOrderViolationSwitchEndpointClosure() {
	client, stop := newExampleClient()
	defer stop()
	ctx := context.Background()
	client.KV = ordering.NewKV(client.KV, ordering.NewOrderViolationSwitchEndpointClosure(client))

	if _, err := client.Put(ctx, "color", "red"); err != nil {
		panic(err)
	}
	older := 0
	for range 30 {
		resp, err := client.Get(ctx, "color", clientv3.WithSerializable())
		if err != nil {
			panic(err)
		}
		if resp.Header.Revision < 2 {
			older++
		}
	}
	fmt.Println(older, "responses from the past")
	// Output: 0 responses from the past
}

// A program that would rather know than wait.
func ExampleNewKV() {
	client, stop := newExampleClient()
	defer stop()
	ctx := context.Background()
	errStale := errors.New("this member is behind")
	kv := ordering.NewKV(client.KV, func(clientv3.Op, clientv3.OpResponse, int64) error { return errStale })

	if _, err := kv.Put(ctx, "color", "red"); err != nil {
		panic(err)
	}
	for {
		if _, err := kv.Get(ctx, "color", clientv3.WithSerializable()); err != nil {
			fmt.Println(err)
			break
		}
	}
	// Output: this member is behind
}
