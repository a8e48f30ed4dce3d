package recipe_test

import (
	"fmt"
	"sync"

	"github.com/quorate/quorate/clientv3/concurrency"
	recipe "github.com/quorate/quorate/clientv3/experimental/recipes"
	"github.com/quorate/quorate/clientv3/internal/clienttest"
)

// Dequeue waits until there is an element.
func ExampleQueue() {
	client, stop := clienttest.Example(1)
	defer stop()
	q := recipe.NewQueue(client, "jobs")
	var producer sync.WaitGroup
	producer.Go(func() {
		for _, job := range []string{"wash", "rinse", "dry"} {
			if err := q.Enqueue(job); err != nil {
				panic(err)
			}
		}
	})
	for range 3 {
		job, err := q.Dequeue()
		fmt.Println(job, err)
	}
	producer.Wait()
	// Output:
	// wash <nil>
	// rinse <nil>
	// dry <nil>
}

// The lowest number is served first.
func ExamplePriorityQueue() {
	client, stop := clienttest.Example(1)
	defer stop()
	q := recipe.NewPriorityQueue(client, "jobs")
	for priority, job := range []string{"now", "soon", "later"} {
		if err := q.Enqueue(job, uint16(priority)); err != nil {
			panic(err)
		}
	}
	if err := q.Enqueue("now as well", 0); err != nil {
		panic(err)
	}
	for range 4 {
		job, err := q.Dequeue()
		fmt.Println(job, err)
	}
	// Output:
	// now <nil>
	// now as well <nil>
	// soon <nil>
	// later <nil>
}

// Workers wait until the barrier is released.
func ExampleBarrier() {
	client, stop := clienttest.Example(1)
	defer stop()
	barrier := recipe.NewBarrier(client, "maintenance")
	if err := barrier.Hold(); err != nil {
		panic(err)
	}
	fmt.Println(barrier.Hold())
	done := make(chan error)
	go func() { done <- recipe.NewBarrier(client, "maintenance").Wait() }()
	if err := barrier.Release(); err != nil {
		panic(err)
	}
	fmt.Println(<-done)
	// Output:
	// key already exists
	// <nil>
}

// Two workers begin together and end together.
func ExampleDoubleBarrier() {
	client, stop := clienttest.Example(1)
	defer stop()
	var working, workers sync.WaitGroup
	working.Add(2)
	for range 2 {
		workers.Go(func() {
			session, err := concurrency.NewSession(client)
			if err != nil {
				panic(err)
			}
			defer session.Orphan()
			barrier := recipe.NewDoubleBarrier(session, "backup", 2)
			if err := barrier.Enter(); err != nil {
				panic(err)
			}
			working.Done()
			working.Wait()
			if err := barrier.Leave(); err != nil {
				panic(err)
			}
		})
	}
	workers.Wait()
	fmt.Println("all have left")
	// Output:
	// all have left
}

// Readers are together; a writer is alone.
func ExampleRWMutex() {
	client, stop := clienttest.Example(1)
	defer stop()
	participant := func() (*recipe.RWMutex, func()) {
		session, err := concurrency.NewSession(client)
		if err != nil {
			panic(err)
		}
		return recipe.NewRWMutex(session, "ledger"), session.Orphan
	}
	reader1, end1 := participant()
	defer end1()
	reader2, end2 := participant()
	defer end2()
	writer, end3 := participant()
	defer end3()

	fmt.Println(reader1.RLock(), reader2.RLock())
	locked := make(chan error)
	go func() { locked <- writer.Lock() }()
	fmt.Println(reader1.RUnlock(), reader2.RUnlock())
	fmt.Println(<-locked, writer.Unlock())
	// Output:
	// <nil> <nil>
	// <nil> <nil>
	// <nil> <nil>
}
