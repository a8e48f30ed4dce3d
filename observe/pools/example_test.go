package pools_test

import (
	"context"
	"fmt"

	"github.com/quorate/quorate/observe/pools"
	"github.com/quorate/quorate/pool"
)

// A metrics library of the program's own takes the values from here.
func ExampleOf() {
	sessions, err := pool.New(pool.Config[int]{
		Create:  func(context.Context) (int, error) { return 1, nil },
		MaxSize: 4,
	})
	if err != nil {
		panic(err)
	}
	defer sessions.Close()
	session, err := sessions.Acquire(context.Background())
	if err != nil {
		panic(err)
	}
	defer session.Release()

	for _, m := range pools.Of(sessions.Stats()) {
		if m.Name == "quorate.pool.resources" && m.Value > 0 {
			fmt.Println(m.Name, m.Labels, m.Value)
		}
	}
	// Output: quorate.pool.resources [{state borrowed}] 1
}
