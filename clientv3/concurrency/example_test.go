package concurrency_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/concurrency"
	"github.com/quorate/quorate/clientv3/internal/clienttest"
)

// Two processes, each with its own session, take turns.
func ExampleMutex_Lock() {
	client, stop := clienttest.Example(3)
	defer stop()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()

	var processes sync.WaitGroup
	for range 2 {
		processes.Go(func() {
			session, err := concurrency.NewSession(client, concurrency.WithTTL(10))
			if err != nil {
				panic(err)
			}
			defer session.Close()

			mutex := concurrency.NewMutex(session, "locks/report")
			if err := mutex.Lock(ctx); err != nil {
				panic(err)
			}
			fmt.Println("locked")
			fmt.Println("unlocked")
			if err := mutex.Unlock(ctx); err != nil {
				panic(err)
			}
		})
	}
	processes.Wait()
	// Output:
	// locked
	// unlocked
	// locked
	// unlocked
}

func ExampleMutex_TryLock() {
	client, stop := clienttest.Example(3)
	defer stop()
	ctx := context.Background()

	for range 2 {
		session, err := concurrency.NewSession(client)
		if err != nil {
			panic(err)
		}
		defer session.Close()
		err = concurrency.NewMutex(session, "locks/report").TryLock(ctx)
		fmt.Println(errors.Is(err, concurrency.ErrLocked))
	}
	// Output:
	// false
	// true
}

// The server executes the write only while the lock is held, so a holder that was paused for too long writes nothing.
func ExampleMutex_IsOwner() {
	client, stop := clienttest.Example(3)
	defer stop()
	ctx := context.Background()

	session, err := concurrency.NewSession(client)
	if err != nil {
		panic(err)
	}
	mutex := concurrency.NewMutex(session, "locks/report")
	if err := mutex.Lock(ctx); err != nil {
		panic(err)
	}
	write := func() {
		resp, err := client.Txn(ctx).If(mutex.IsOwner()).Then(clientv3.OpPut("report", "done")).Commit()
		if err != nil {
			panic(err)
		}
		fmt.Println("written:", resp.Succeeded)
	}
	write()
	if err := session.Close(); err != nil {
		panic(err)
	}
	write()
	// Output:
	// written: true
	// written: false
}

func ExampleElection() {
	client, stop := clienttest.Example(3)
	defer stop()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()

	session, err := concurrency.NewSession(client, concurrency.WithTTL(10))
	if err != nil {
		panic(err)
	}
	defer session.Close()
	election := concurrency.NewElection(session, "elections/scheduler")
	leaders := election.Observe(ctx)

	if err := election.Campaign(ctx, "10.0.0.1"); err != nil {
		panic(err)
	}
	fmt.Println("leader:", string((<-leaders).Kvs[0].Value))
	if err := election.Proclaim(ctx, "10.0.0.1:8080"); err != nil {
		panic(err)
	}
	fmt.Println("leader:", string((<-leaders).Kvs[0].Value))
	if err := election.Resign(ctx); err != nil {
		panic(err)
	}
	_, err = election.Leader(ctx)
	fmt.Println(err)
	// Output:
	// leader: 10.0.0.1
	// leader: 10.0.0.1:8080
	// election: no leader
}

// A program continues with a new session when its session is lost.
func ExampleSession_Recreate() {
	client, stop := clienttest.Example(3)
	defer stop()
	ctx := context.Background()

	session, err := concurrency.NewSession(client, concurrency.WithTTL(10))
	if err != nil {
		panic(err)
	}
	// An operator revokes the lease, or the cluster is unreachable for 10 s.
	if _, err := client.Revoke(ctx, session.Lease()); err != nil {
		panic(err)
	}

	<-session.Done()
	if ended, ok := errors.AsType[*concurrency.SessionEndedError](session.Err()); ok {
		fmt.Println(ended.Cause)
	}
	session, err = session.Recreate(ctx)
	if err != nil {
		panic(err)
	}
	fmt.Println(session.Err())
	fmt.Println(session.Close())
	// Output:
	// etcdserver: requested lease not found
	// <nil>
	// <nil>
}

// Many goroutines move an amount from one account to another.
func ExampleNewSTM() {
	client, stop := clienttest.Example(3)
	defer stop()
	ctx := context.Background()
	if _, err := client.Put(ctx, "accounts/ann", "100"); err != nil {
		panic(err)
	}

	transfer := func(stm concurrency.STM) error {
		ann, err := strconv.Atoi(stm.Get("accounts/ann"))
		if err != nil {
			return err
		}
		bob := 0
		if stm.Rev("accounts/bob") != 0 {
			if bob, err = strconv.Atoi(stm.Get("accounts/bob")); err != nil {
				return err
			}
		}
		stm.Put("accounts/ann", strconv.Itoa(ann-5))
		stm.Put("accounts/bob", strconv.Itoa(bob+5))
		return nil
	}
	var transfers sync.WaitGroup
	for range 10 {
		transfers.Go(func() {
			if _, err := concurrency.NewSTM(client, transfer); err != nil {
				panic(err)
			}
		})
	}
	transfers.Wait()

	accounts, err := client.Get(ctx, "accounts/", clientv3.WithPrefix())
	if err != nil {
		panic(err)
	}
	for _, kv := range accounts.Kvs {
		fmt.Println(string(kv.Key), string(kv.Value))
	}
	// Output:
	// accounts/ann 50
	// accounts/bob 50
}

// Two of any number of processes hold the semaphore at a time.
func ExampleSemaphore() {
	client, stop := clienttest.Example(3)
	defer stop()
	ctx := context.Background()

	for _, maxWait := range []time.Duration{time.Minute, time.Minute, time.Second} {
		session, err := concurrency.NewSession(client, concurrency.WithTTL(10))
		if err != nil {
			panic(err)
		}
		defer session.Close()
		semaphore := concurrency.NewSemaphore(session, "semaphores/backup", 2)
		waiting, cancel := context.WithTimeout(ctx, maxWait)
		fmt.Println(semaphore.Acquire(waiting, "10.0.0.1"))
		cancel()
	}
	// Output:
	// <nil>
	// <nil>
	// context deadline exceeded
}

// An agent registers itself. The key is put again after its lease was lost, and is removed when the agent ends.
func ExampleKeepKey() {
	client, stop := clienttest.Example(3)
	defer stop()
	ctx := context.Background()

	agent, err := concurrency.KeepKey(ctx, client, "agents/ann", "10.0.0.7", concurrency.KeyOptions{
		TTL:    10 * time.Second,
		Notify: func(e concurrency.KeyEvent) { fmt.Println(e.State, e.Err) },
	})
	if err != nil {
		panic(err)
	}
	if err := agent.SetValue(ctx, "10.0.0.8"); err != nil {
		panic(err)
	}
	resp, err := client.Get(ctx, agent.Key())
	if err != nil {
		panic(err)
	}
	fmt.Printf("%s\n", resp.Kvs[0].Value)
	if err := agent.Remove(ctx); err != nil {
		panic(err)
	}
	// Output:
	// held <nil>
	// 10.0.0.8
	// removed <nil>
}
