package client

import (
	"context"

	"github.com/quorate/quorate/lab/robustness/history"
)

// Store is what the lab asks of a client. Tests put a store with wrong answers in its place.
//
// Errors are passed on as the client returned them, so that their class is not
// lost.
type Store interface {
	// Get reads a key.
	Get(ctx context.Context, key string, serializable bool) (Answer, error)
	// Put writes a key and returns the revision of the response header.
	Put(ctx context.Context, key, value string) (revision int64, err error)
	// Increment writes both keys if the counter has the wanted value, and reads
	// the counter otherwise.
	Increment(ctx context.Context, inc Increment) (Answer, error)
	// ReadRange reads all keys from one up to another, linearizably.
	ReadRange(ctx context.Context, from, end string) error
}

// Answer is the response to a Get or an Increment.
type Answer struct {
	// Revision of the response header.
	Revision int64
	// Applied reports whether an Increment wrote.
	Applied bool
	// Read is what a Get found, or what an Increment that did not write found
	// in its counter.
	Read history.Reading
}

// Increment describes a txn.
type Increment struct {
	// Counter is the key of the counter.
	Counter string
	// Want is the value that the counter must have, 0 if it must not exist; it
	// is then set to Want+1.
	Want int64
	// Key and Value are written beside it.
	Key, Value string
}
