package kubernetes_test

import (
	"context"
	"fmt"

	"github.com/quorate/quorate/clientv3/internal/clienttest"
	"github.com/quorate/quorate/clientv3/kubernetes"
)

// newExampleClient returns a client of an etcd that lives in memory.
func newExampleClient() (*kubernetes.Client, func()) {
	client, stop := clienttest.Example(1)
	k := &kubernetes.Client{Client: client}
	k.Kubernetes = k
	return k, stop
}

// Two writers read an object; the second to write learns of the first.
func ExampleClient_OptimisticPut() {
	client, stop := newExampleClient()
	defer stop()
	ctx := context.Background()
	const key = "/registry/pods/default/web"

	created, err := client.OptimisticPut(ctx, key, []byte("replicas=1"), 0, kubernetes.PutOptions{})
	if err != nil {
		panic(err)
	}
	fmt.Println("created:", created.Succeeded)

	for _, value := range []string{"replicas=2", "replicas=5"} {
		resp, err := client.OptimisticPut(ctx, key, []byte(value), created.Revision, kubernetes.PutOptions{GetOnFailure: true})
		if err != nil {
			panic(err)
		}
		if resp.Succeeded {
			fmt.Println("written:", value)
		} else {
			fmt.Printf("%s conflicts with %s\n", value, resp.KV.Value)
		}
	}
	// Output:
	// created: true
	// written: replicas=2
	// replicas=5 conflicts with replicas=2
}

// A listing in pages, all of them at the revision of the first.
func ExampleClient_List() {
	client, stop := newExampleClient()
	defer stop()
	ctx := context.Background()
	const prefix = "/registry/pods/"
	for _, name := range []string{"api", "db", "web"} {
		if _, err := client.OptimisticPut(ctx, prefix+name, []byte("v"), 0, kubernetes.PutOptions{}); err != nil {
			panic(err)
		}
	}

	opts := kubernetes.ListOptions{Limit: 2}
	for {
		page, err := client.List(ctx, prefix, opts)
		if err != nil {
			panic(err)
		}
		for _, kv := range page.Kvs {
			fmt.Println(string(kv.Key))
			opts.Continue = string(kv.Key) + "\x00"
		}
		if page.Count == int64(len(page.Kvs)) {
			return
		}
		fmt.Println("and", page.Count-int64(len(page.Kvs)), "more")
		if opts.Revision == 0 {
			opts.Revision = page.Revision
		}
	}
	// Output:
	// /registry/pods/api
	// /registry/pods/db
	// and 1 more
	// /registry/pods/web
}
