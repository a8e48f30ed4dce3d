package kubernetes

import "time"

// timing holds the timeouts for detecting an unreachable API server.
type timing struct {
	// answer bounds the time to the header of a response, including the connection.
	answer time.Duration
	// listed bounds the time without a new slice in a streamed list. A server that does not
	// support streamed lists never ends one.
	listed time.Duration
	// silence bounds the time without an event of a watch, in which bookmarks come every minute,
	// and the time to read a list.
	silence time.Duration
	// After ping without data, a connection is pinged, and closed if there is no answer within
	// pong. client-go's own values, 30 s and 15 s, can be changed only for a whole process.
	ping, pong time.Duration
	// idle is how long an unused connection is kept. Concurrent requests may open one each.
	idle time.Duration
	// steady is how long a watch must last to count as a success, after which the next one opens
	// at once.
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
