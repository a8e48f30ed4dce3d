// Program ways writes, for each operation and each of several rounds, what the operation has executed. It is built with
// -cover -covermode=atomic. Time is virtual, so that no timer fires meanwhile because the machine is busy. It is no test,
// because a test binary with -cover writes counters at its end only.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/coverage"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/mock/fakeetcd"
)

const (
	members = 3
	warm    = 300 // executions before the first round
	rounds  = 10
	// settled is longer than what follows the end of an operation takes, and shorter than any timer.
	settled = 2 * time.Millisecond
)

func main() {
	dir := os.Args[1]
	ways := func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			if err := run(t.Context(), dir); err != nil {
				t.Fatal(err)
			}
		})
	}
	all := func(string, string) (bool, error) { return true, nil }
	testing.Main(all, []testing.InternalTest{{Name: "ways", F: ways}}, nil, nil)
}

func run(ctx context.Context, dir string) error {
	cluster, err := fakeetcd.Start(members)
	if err != nil {
		return err
	}
	defer cluster.Close()
	c, err := clientv3.New(clientv3.Config{Endpoints: cluster.Endpoints(), DialOptions: cluster.DialOptions(), Logger: zap.NewNop()})
	if err != nil {
		return err
	}
	defer c.Close()
	events := c.Watch(ctx, "watched")
	for _, o := range []struct {
		name    string
		execute func() error
	}{
		{"get", func() error { _, err := c.Get(ctx, "key"); return err }},
		{"put", func() error { _, err := c.Put(ctx, "key", "value"); return err }},
		{"event", func() error {
			_, err := cluster.Put("watched", "value")
			<-events
			return err
		}},
	} {
		if err := repeat(warm, o.execute); err != nil {
			return err
		}
		for round := range rounds {
			if err := record(filepath.Join(dir, o.name, fmt.Sprint(round)), o.execute); err != nil {
				return err
			}
		}
	}
	return nil
}

func repeat(n int, execute func() error) error {
	for range n {
		if err := execute(); err != nil {
			return err
		}
	}
	return nil
}

// record executes the operation often enough on each member that timers are set, and records one execution.
func record(dir string, execute func() error) error {
	err := errors.Join(os.MkdirAll(dir, 0o700), repeat(10*members, execute))
	time.Sleep(settled)
	err = errors.Join(err, coverage.ClearCounters(), execute())
	time.Sleep(settled)
	return errors.Join(err, coverage.WriteMetaDir(dir), coverage.WriteCountersDir(dir))
}
