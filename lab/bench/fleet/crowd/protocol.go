package crowd

import "time"

// Job is what a process of clients is told first, on its standard input. A state
// answers it when all clients are ready.
type Job struct {
	Endpoints     []string
	Clients       int
	TTL, Interval time.Duration
}

// Order is what a process of clients is told later, any number of times. A state
// answers each.
type Order struct {
	// Deadline is that of the gets from now on. 0 stops the gets.
	Deadline time.Duration
	// Mark forgets the FirstAnswers.
	Mark bool
	// Heap asks for the memory, which takes two garbage collections.
	Heap bool
}

// State is what the clients of one process, or of several, have done since they
// started.
type State struct {
	Started, Answered, Failed int64 // gets
	LeasesLost, WatchesLost   int64
	// FirstAnswers are the times, in Unix nanoseconds, of each client's first
	// successful get since the last Mark.
	FirstAnswers []int64
	// CPU is the CPU time of the processes.
	CPU time.Duration
	// Heap is the heap and the stacks in use, in bytes, and Goroutines the number of
	// goroutines, both without what the process had before it opened its clients.
	Heap, Goroutines int64
	// Error says why an order could not be carried out.
	Error string
}

// Add adds the state of another process.
func (s *State) Add(other State) {
	s.Started += other.Started
	s.Answered += other.Answered
	s.Failed += other.Failed
	s.LeasesLost += other.LeasesLost
	s.WatchesLost += other.WatchesLost
	s.FirstAnswers = append(s.FirstAnswers, other.FirstAnswers...)
	s.CPU += other.CPU
	s.Heap += other.Heap
	s.Goroutines += other.Goroutines
}
