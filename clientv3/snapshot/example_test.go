package snapshot_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"go.uber.org/zap"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/internal/clienttest"
	"github.com/quorate/quorate/clientv3/snapshot"
)

func ExampleSaveWithVersion() {
	cluster, _, stop := clienttest.ExampleCluster(3) // an etcd in memory
	defer stop()
	dir, err := os.MkdirTemp("", "backup-")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)

	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	path := filepath.Join(dir, "etcd.db")
	version, err := snapshot.SaveWithVersion(ctx, zap.NewNop(), clientv3.Config{
		Endpoints:   cluster.Endpoints()[:1], // a snapshot is the state of one member
		DialOptions: cluster.DialOptions(),
	}, path)
	if err != nil {
		panic(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		panic(err)
	}
	fmt.Println("storage version:", version)
	fmt.Println("mode:", info.Mode())
	// Output:
	// storage version: 3.7.0
	// mode: -rw-------
}
