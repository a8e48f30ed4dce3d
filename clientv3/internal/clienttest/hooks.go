package clienttest

import (
	"sync"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/quorate/quorate/clientv3/mock/fakeetcd"
)

// Hold keeps the next call of a method, a watch stream too, on its way until release is called.
func Hold(cluster *fakeetcd.Cluster, method string) (release func()) {
	held := make(chan struct{})
	cluster.Once(method, func(c *fakeetcd.Call) { _ = c.Hold(held) })
	return sync.OnceFunc(func() { close(held) })
}

// RefuseWatches makes the members refuse all watches, for a reason of rpctypes, on the streams that open until the hook is
// removed.
func RefuseWatches(cluster *fakeetcd.Cluster, reason error) *fakeetcd.Hook {
	return cluster.On("Watch", func(c *fakeetcd.Call) {
		for {
			req, err := c.Recv()
			if err != nil {
				return
			}
			if req.(*pb.WatchRequest).GetCreateRequest() == nil {
				continue
			}
			_ = c.Send(&pb.WatchResponse{
				Header: &pb.ResponseHeader{Revision: 1}, WatchId: -1, Created: true, Canceled: true, CancelReason: reason.Error(),
			})
		}
	})
}

// LoseAnswer is a hook that executes a call, and breaks the connection before the answer.
func LoseAnswer(call *fakeetcd.Call) {
	if _, err := call.Execute(); err == nil {
		call.BreakConn()
	}
}
