package client

import "context"

// Store makes calls of which no model is kept. Errors are passed on as the client returned them, so that their class is not
// lost.
type Store interface {
	// Get reads a key.
	Get(ctx context.Context, key string, serializable bool) (Answer, error)
	// Put writes a key and returns the revision of the response header.
	Put(ctx context.Context, key, value string) (revision int64, err error)
	// ReadRange reads all keys from one up to another, linearizably.
	ReadRange(ctx context.Context, from, end string) error
}

// Answer is the response to a Get.
type Answer struct {
	// Revision of the response header.
	Revision int64
	// Found reports whether the key exists, and Value is its value.
	Found bool
	Value string
}
