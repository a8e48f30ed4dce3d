package crowd

import "time"

// Job is what the process of a client is told first, on its standard input. A state
// answers it when the client is ready.
type Job struct {
	Endpoints []string
}

// Order is what the process is told later, any number of times. A state answers each.
type Order struct {
	// Deadline is that of the gets from now on. 0 stops the gets.
	Deadline time.Duration
	// Mark forgets that there was an answer.
	Mark bool
}

// State is what one client, or several, have done since they started.
type State struct {
	Started, Answered, Failed int64 // gets
	LeasesLost, WatchesLost   int64
	// HaveAnswers is the number of clients that a get was answered to since the last Mark.
	HaveAnswers int
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
	s.HaveAnswers += other.HaveAnswers
}
