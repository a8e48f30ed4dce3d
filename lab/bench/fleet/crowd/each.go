package crowd

import "sync"

// Each calls do for 0 to n-1, at most limit at a time, and returns the first error.
func Each(n, limit int, do func(i int) error) error {
	var mu sync.Mutex
	var first error
	var work sync.WaitGroup
	free := make(chan struct{}, limit)
	for i := range n {
		free <- struct{}{}
		work.Go(func() {
			defer func() { <-free }()
			if err := do(i); err != nil {
				mu.Lock()
				defer mu.Unlock()
				if first == nil {
					first = err
				}
			}
		})
	}
	work.Wait()
	return first
}
