package cases

// Job is what the process of a client reads first, from its standard input.
type Job struct {
	Case      string
	Endpoints []string
	Size      int
	Short     bool
	Revision  int64
}

// Message is what the process of a client writes to its standard output: any number
// of requests, then a sample or an error.
type Message struct {
	Request *Request `json:",omitempty"`
	Sample  Sample   `json:",omitempty"`
	Error   string   `json:",omitempty"`
}

// Request is a call of Control. An answer follows it.
type Request struct {
	Kill string `json:",omitempty"`
	Put  int    `json:",omitempty"`
}

// Answer is the result of a request.
type Answer struct {
	Error string `json:",omitempty"`
}
