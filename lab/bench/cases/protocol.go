package cases

// Job is what the process of a client is told first, on its standard input.
type Job struct {
	Case      string
	Endpoints []string
	Size      int
	Short     bool
	Revision  int64
}

// Message is what the process of a client says, on its standard output: any number
// of wishes, then a sample or an error.
type Message struct {
	Wish   *Wish  `json:",omitempty"`
	Sample Sample `json:",omitempty"`
	Error  string `json:",omitempty"`
}

// Wish is a call of Control. An answer follows it.
type Wish struct {
	Kill string `json:",omitempty"`
	Put  int    `json:",omitempty"`
}

// Answer is the result of a wish.
type Answer struct {
	Error string `json:",omitempty"`
}
