package kubernetes

import "time"

// timing holds the timeouts for detecting an unreachable API server.
type timing struct {
	// answer is how long a request may take to be answered, connecting included.
	answer time.Duration
	// listed is how long a streamed list may bring nothing new before its end. A server that
	// knows nothing of streamed lists never ends one.
	listed time.Duration
	// silence is how long a watch may be without events: bookmarks come once in a minute. It
	// bounds as well how long a list may take to be read.
	silence time.Duration
	// A connection that brings nothing for ping is asked, and dead if it does not answer
	// within pong. client-go's own values, 30 s and 15 s, can only be set for a process.
	ping, pong time.Duration
	// idle is how long an unused connection is kept. Requests that begin together may have
	// made one each.
	idle time.Duration
	// steady is how long a watch has to last to count as a success, after which the next
	// one is opened at once.
	steady time.Duration
}

func defaultTiming() timing {
	return timing{
		answer:  15 * time.Second,
		listed:  10 * time.Second,
		silence: 2 * time.Minute,
		ping:    15 * time.Second,
		pong:    5 * time.Second,
		idle:    30 * time.Second,
		steady:  time.Second,
	}
}
