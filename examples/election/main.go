// Election leads when it is elected, until it is interrupted or loses its lease, and then lets another one lead.
//
//	go run ./examples/election --endpoints 127.0.0.1:2379
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"time"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/clientconfig"
	"github.com/quorate/quorate/clientv3/concurrency"
)

func main() {
	settings := clientconfig.Flags(flag.CommandLine)
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := connect(ctx, settings)
	stop()
	if err != nil {
		log.Fatal(err)
	}
}

// connect runs the example with a client as flags and the environment describe it.
func connect(ctx context.Context, settings clientconfig.Source) error {
	config, err := clientconfig.Load(settings, clientconfig.Env())
	if err != nil {
		return err
	}
	client, err := clientv3.New(config)
	if err != nil {
		return err
	}
	defer client.Close()
	return run(ctx, client)
}

const resignTimeout = 3 * time.Second

var (
	name = flag.String("name", "one", "who is elected")
	term = flag.Duration("term", time.Minute, "how long to lead at most")
)

func run(ctx context.Context, client *clientv3.Client) error {
	session, err := concurrency.NewSession(client, concurrency.WithTTL(15), concurrency.WithContext(ctx))
	if err != nil {
		return err
	}
	defer session.Close()
	election := concurrency.NewElection(session, "examples/election")
	if err := election.Campaign(ctx, *name); err != nil {
		return err
	}
	fmt.Println(*name, "leads")
	leading, cancel := context.WithTimeout(ctx, *term)
	defer cancel()
	go func() {
		select {
		case <-session.Done():
			cancel() // the lease is lost, and another one may lead
		case <-leading.Done():
		}
	}()
	err = lead(leading, client, election)

	// Give the leadership back, also after an interrupt: the next one need not wait for the TTL.
	ctx, end := context.WithTimeout(context.WithoutCancel(ctx), resignTimeout)
	defer end()
	return errors.Join(err, election.Resign(ctx))
}

// lead works until ctx ends. Each write compares the key of the election, so that none of a
// former leader is executed.
func lead(ctx context.Context, client *clientv3.Client, election *concurrency.Election) error {
	isLeader := clientv3.Compare(clientv3.CreateRevision(election.Key()), "=", election.Rev())
	for tick := time.NewTicker(time.Second); ; {
		resp, err := client.Txn(ctx).If(isLeader).Then(clientv3.OpPut("examples/plan", *name)).Commit()
		switch {
		case ctx.Err() != nil:
			fmt.Println(*name, "resigns")
			return nil
		case err != nil:
			return err
		case !resp.Succeeded:
			return errors.New("another one leads")
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			tick.Stop()
		}
	}
}
