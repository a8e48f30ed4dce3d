package clientv3_test

import (
	"context"
	"fmt"
	"time"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/retry"
)

// The error of a write says whether the write may have been executed.
func ExampleNew() {
	put := func() error {
		client, err := clientv3.New(clientv3.Config{Endpoints: []string{"10.0.0.1:2379", "10.0.0.2:2379", "10.0.0.3:2379"}})
		if err != nil {
			return err
		}
		defer client.Close()

		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_, err = client.Put(ctx, "greeting", "hello")
		if retry.OutcomeOf(err) == retry.OutcomeUnknown {
			// The connection broke, or the deadline passed, after the request was sent: it may or
			// may not have been executed. Quorate has not sent it twice. Read the key, or use a
			// Txn that compares.
			return fmt.Errorf("the greeting may have been written: %w", err)
		}
		return err
	}
	_ = put // this cluster does not exist
}

// A client that behaves like the official one.
func ExampleConfig() {
	endpoints := []string{"10.0.0.1:2379"}
	config := clientv3.Config{
		Endpoints:            endpoints,
		DisableHealthChecks:  true, // no probes; silence or a change of leader ends nothing
		DisableHedging:       true, // one attempt at a time
		DisableHealthSharing: true, // health is not shared with other clients of the process
		DisableSplitReplay:   true, // one watcher for each watch, however far behind it is
	}
	client, err := clientv3.New(config)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(client.Close())
	// Output: <nil>
}
