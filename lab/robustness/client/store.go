package client

import "context"

// Store makes calls of which no model is kept. Errors are passed on as the client returned them, so that their class is not
// lost.
type Store interface {
	// Get reads a key, linearizably, and returns the revision of the response header.
	Get(ctx context.Context, key string) (revision int64, err error)
	// Put writes a key and returns the revision of the response header.
	Put(ctx context.Context, key, value string) (revision int64, err error)
	// ReadRange reads all keys from one up to another, linearizably.
	ReadRange(ctx context.Context, from, end string) error
}
