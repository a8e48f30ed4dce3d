package clients

import "time"

// Job describes the clients of a process.
type Job struct {
	Endpoints []string
	// Clients of the process. Default 1.
	Clients int
	// CA, Cert and Key are PEM files; all are empty for members that serve without TLS.
	CA, Cert, Key string
}

// Command is what clients do from now on.
type Command struct {
	// Deadline is that of the gets from now on. 0 stops the gets.
	Deadline time.Duration
	// Mark forgets that there was an answer.
	Mark bool
}

// State is what clients have done since they started.
type State struct {
	Answered, Failed int64 // gets
	// HaveAnswers is the number of clients that a get was answered to since the last Mark.
	HaveAnswers int
	// CPU is the CPU time of the processes.
	CPU time.Duration
}

// Add adds the state of others.
func (s *State) Add(other State) {
	s.Answered += other.Answered
	s.Failed += other.Failed
	s.HaveAnswers += other.HaveAnswers
	s.CPU += other.CPU
}
