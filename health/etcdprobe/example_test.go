package etcdprobe_test

import (
	"context"
	"fmt"
	"time"

	"github.com/quorate/quorate/clientv3/mock/fakeetcd"
	"github.com/quorate/quorate/health"
	"github.com/quorate/quorate/health/etcdprobe"
)

// A member that is cut off from its peers answers, and serves nothing.
func ExampleProber() {
	cluster, err := fakeetcd.Start(1)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer cluster.Close()
	cluster.On("Range", hold)
	conn, err := cluster.Member(0).Dial()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer conn.Close()

	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	alive, serves := false, false
	etcdprobe.Prober{}.Probe(ctx, conn, func(r health.Report) {
		alive = true
		serves = serves || r.Kind == health.Served
	})
	fmt.Println("alive:", alive, "serves:", serves)
	// Output: alive: true serves: false
}
