// Package runner runs the cases: each sample in a process of its own that is this
// program started again, against a cluster of the lab, the two clients in turn.
package runner

import (
	"github.com/quorate/quorate/lab/bench/cases"
)

// job is what the process of a client is told first, on its standard input.
type job struct {
	Case      string
	Client    string
	Endpoints []string
	Size      int
	Short     bool
	Revision  int64
}

// message is what the process of a client says, on its standard output: any number
// of wishes, then a sample or an error.
type message struct {
	Wish   *wish        `json:",omitempty"`
	Sample cases.Sample `json:",omitempty"`
	Error  string       `json:",omitempty"`
}

// wish is a call of cases.Control. An answer follows it.
type wish struct {
	Kill string `json:",omitempty"`
	Put  int    `json:",omitempty"`
}

// answer is the result of a wish.
type answer struct {
	Error string `json:",omitempty"`
}
