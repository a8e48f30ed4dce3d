package clientv3_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/internal/clienttest"
	"github.com/quorate/quorate/retry"
)

var errModified = errors.New("the key was modified")

// replace writes a key whose last change is of revision rev. The value names its writer, so a repetition after an unknown outcome
// recognizes what the first attempt wrote.
func replace(ctx context.Context, client *clientv3.Client, key string, rev int64, value string) error {
	for tries := 1; ; tries++ {
		resp, err := client.Txn(ctx).
			If(clientv3.Compare(clientv3.ModRevision(key), "=", rev)).
			Then(clientv3.OpPut(key, value)).
			Else(clientv3.OpGet(key)).
			Commit()
		if retry.OutcomeOf(err) == retry.OutcomeUnknown && ctx.Err() == nil && tries < 5 {
			continue
		}
		if err != nil || resp.Succeeded {
			return err
		}
		if now := resp.Responses[0].GetResponseRange().Kvs; len(now) == 0 || string(now[0].Value) != value {
			return errModified
		}
		return nil
	}
}

// A transaction that compares the revision of an existing key, and writes it, may be repeated after an unknown outcome: it is
// executed once. One that creates a key may not: if another client deletes the key, a repetition creates it again.
func ExampleTxn_unknownOutcome() {
	cluster, client, stop := clienttest.ExampleCluster(1)
	defer stop()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	rev := clienttest.Must(client.Put(ctx, "owner", "none")).Header.Revision
	// The first one is executed, and its connection breaks before the response is sent.
	cluster.Once("Txn", clienttest.LoseAnswer)

	fmt.Println(replace(ctx, client, "owner", rev, "ann"))
	fmt.Println(replace(ctx, client, "owner", rev, "bob"))
	fmt.Println("received:", cluster.Count("Txn"), "written:", cluster.PutCount("owner"))
	// Output:
	// <nil>
	// the key was modified
	// received: 3 written: 2
}

// The files are read again when they change: certificates and CAs rotate without a restart.
func ExampleNewClientConfig() {
	connect := func(endpoints []string, password string) (*clientv3.Client, error) {
		config, err := clientv3.NewClientConfig(&clientv3.ConfigSpec{
			Endpoints:   endpoints,
			DialTimeout: 5 * time.Second,
			Secure: &clientv3.SecureConfig{
				Cacert: "/etc/etcd/ca.pem", Cert: "/etc/etcd/client.pem", Key: "/etc/etcd/client-key.pem",
			},
			Auth: &clientv3.AuthConfig{Username: "orders", Password: password},
		}, nil)
		if err != nil {
			return nil, err
		}
		return clientv3.New(*config)
	}
	_ = connect // these files do not exist
}

// Tokens rotate: the source is called when the client is created, and when the server refuses the
// token.
func ExampleNew_tokenSource() {
	client, err := clientv3.New(clientv3.Config{
		Endpoints: []string{"https://10.0.0.1:2379", "https://10.0.0.2:2379", "https://10.0.0.3:2379"},
		TLS:       &tls.Config{MinVersion: tls.VersionTLS13},
		TokenSource: func(context.Context) (string, error) {
			token, err := os.ReadFile("/var/run/secrets/etcd/token")
			return strings.TrimSpace(string(token)), err
		},
	})
	if errors.Is(err, os.ErrNotExist) {
		fmt.Println("no token, no client")
		return
	}
	defer client.Close()
	// Output: no token, no client
}

// The members of a cluster, and its leader.
func ExampleCluster() {
	client, stop := clienttest.Example(3)
	defer stop()
	ctx := context.Background()

	members, err := client.MemberList(ctx)
	if err != nil {
		panic(err)
	}
	for _, m := range members.Members {
		status, err := client.Status(ctx, m.ClientURLs[0])
		if err != nil {
			panic(err)
		}
		fmt.Println(m.Name, "leads:", status.Leader == m.ID)
	}
	// Output:
	// member-0 leads: true
	// member-1 leads: false
	// member-2 leads: false
}

// A member that raised an alarm (NOSPACE, CORRUPT) refuses writes until an operator disarms it. Its status names alarms.
func ExampleMaintenance() {
	client, stop := clienttest.Example(3)
	defer stop()
	ctx := context.Background()

	for _, endpoint := range client.Endpoints() {
		status, err := client.Status(ctx, endpoint)
		if err != nil {
			panic(err)
		}
		fmt.Println(status.Version, status.Errors)
	}
	// Output:
	// 3.7.3 []
	// 3.7.3 []
	// 3.7.3 []
}
