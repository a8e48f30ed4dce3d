package fakeetcd_test

import (
	"context"
	"fmt"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/quorate/quorate/clientv3/mock/fakeetcd"
)

// connect runs a cluster of one member and returns a client for it.
func connect() (cluster *fakeetcd.Cluster, kv pb.KVClient, end func()) {
	cluster, err := fakeetcd.Start(1)
	if err != nil {
		panic(err)
	}
	conn, err := cluster.Member(0).Dial()
	if err != nil {
		panic(err)
	}
	return cluster, pb.NewKVClient(conn), func() {
		_ = conn.Close()
		cluster.Close()
	}
}

// A connection breaks after the write is applied and before the answer is sent: the client cannot know that it was
// applied.
func Example() {
	cluster, kv, end := connect()
	defer end()
	cluster.Once("Put", func(c *fakeetcd.Call) {
		if _, err := c.Execute(); err != nil {
			fmt.Println(err)
		}
		c.BreakConn()
	})

	_, err := kv.Put(context.Background(), &pb.PutRequest{Key: []byte("k"), Value: []byte("v")})
	fmt.Println("the client sees:", status.Code(err))
	fmt.Println("received:", cluster.Count("Put"), "applied:", cluster.PutCount("k"))
	// Output:
	// the client sees: Unavailable
	// received: 1 applied: 1
}

// A call is held until another one is done.
func ExampleCall_Hold() {
	cluster, kv, end := connect()
	defer end()
	release := make(chan struct{})
	cluster.Once("Range", func(c *fakeetcd.Call) {
		// An error means that the client no longer waits.
		_ = c.Hold(release)
	})

	ctx := context.Background()
	done := make(chan string)
	go func() {
		resp, err := kv.Range(ctx, &pb.RangeRequest{Key: []byte("k")})
		done <- fmt.Sprint(resp.GetCount(), " ", err)
	}()
	if err := cluster.Wait(ctx, "Range", 1); err != nil {
		fmt.Println(err)
	}
	if _, err := cluster.Put("k", "written while the read was held"); err != nil {
		fmt.Println(err)
	}
	close(release)
	fmt.Println(<-done)
	// Output: 1 <nil>
}

// The test answers in place of the server, as a proxy or a faulty server would. The call is not executed.
func ExampleCall_Answer() {
	cluster, kv, end := connect()
	defer end()
	cluster.Nth("Put", 2, func(c *fakeetcd.Call) { c.Answer(nil, rpctypes.ErrGRPCLeaderChanged) })

	for range 3 {
		_, err := kv.Put(context.Background(), &pb.PutRequest{Key: []byte("k")})
		fmt.Println(err)
	}
	for _, call := range cluster.Calls("Put") {
		fmt.Println(call.Method, "executed:", call.Executed)
	}
	// Output:
	// <nil>
	// rpc error: code = Unavailable desc = etcdserver: leader changed
	// <nil>
	// /etcdserverpb.KV/Put executed: true
	// /etcdserverpb.KV/Put executed: false
	// /etcdserverpb.KV/Put executed: true
}

// A watch is served as by etcd until the client has its first event. Then its stream is reset.
func ExampleCall_OnSend() {
	cluster, _, end := connect()
	defer end()
	cluster.Once("Watch", func(c *fakeetcd.Call) {
		c.OnSend(func(resp proto.Message) bool {
			if len(resp.(*pb.WatchResponse).Events) == 0 {
				return true
			}
			if err := c.Send(resp); err != nil {
				fmt.Println(err)
			}
			c.ResetStream(fakeetcd.ResetCancel)
			return false
		})
	})
	for range 2 {
		if _, err := cluster.Put("k", "v"); err != nil {
			fmt.Println(err)
		}
	}

	conn, err := cluster.Member(0).Dial()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer conn.Close()
	stream, err := pb.NewWatchClient(conn).Watch(context.Background())
	if err != nil {
		fmt.Println(err)
		return
	}
	create := &pb.WatchCreateRequest{Key: []byte("k"), StartRevision: 2}
	if err := stream.Send(&pb.WatchRequest{
		RequestUnion: &pb.WatchRequest_CreateRequest{CreateRequest: create},
	}); err != nil {
		fmt.Println(err)
	}
	for {
		resp, err := stream.Recv()
		if err != nil {
			fmt.Println(status.Code(err))
			return
		}
		fmt.Println("created:", resp.Created, "events:", len(resp.Events))
	}
	// Output:
	// created: true events: 0
	// created: false events: 2
	// Canceled
}

// A member refuses connections while it is stopped.
func ExampleMember_Stop() {
	cluster, kv, end := connect()
	defer end()
	member := cluster.Member(0)
	member.Stop()
	_, err := kv.Put(context.Background(), &pb.PutRequest{Key: []byte("k")})
	fmt.Println(status.Code(err), "connections:", member.Connections(), "applied:", cluster.PutCount("k"))
	// Output: Unavailable connections: 0 applied: 0
}
