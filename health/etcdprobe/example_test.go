package etcdprobe_test

import (
	"context"
	"fmt"

	"github.com/quorate/quorate/clientv3/mock/fakeetcd"
	"github.com/quorate/quorate/health"
	"github.com/quorate/quorate/health/etcdprobe"
)

// A member that has lost its leader is alive, and does no work.
func ExampleService() {
	cluster, err := fakeetcd.Start(1)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer cluster.Close()
	conn, err := cluster.Member(0).Dial()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer conn.Close()

	show := func(r health.Report) { fmt.Println(health.Evidence{Kind: r.Kind, Detail: r.Detail}) }
	etcdprobe.Service{}.Probe(context.Background(), conn, show)
	cluster.SetLeader(nil)
	etcdprobe.Service{}.Probe(context.Background(), conn, show)
	etcdprobe.Liveness{}.Probe(context.Background(), conn, show)
	// Output:
	// served
	// degrading: no leader
	// answered
}
