package store

import (
	"errors"
	"fmt"

	"github.com/quorate/quorate/retry"
)

var (
	// ErrNotFound says that there is no such key.
	ErrNotFound = errors.New("the key does not exist")
	// ErrExists is the error of [Store.Create] for a key that is there.
	ErrExists = errors.New("the key exists")
	// ErrModified is the error of [Store.DeleteUnmodified] for a key that was written or deleted since it was read.
	ErrModified = errors.New("the key was modified")
	// ErrDecode says that the codec cannot decode the value of a key.
	ErrDecode = errors.New("the value cannot be decoded")
)

// Error is the error of an operation of a [Store].
type Error struct {
	// Op is the operation: "get", "update", "watch", …
	Op string
	// Key is the key with the prefix of the Store; for a list or a watch that ended, it is the first key of the range.
	Key string
	// Codec is the name of the codec.
	Codec string
	// Err is the cause.
	Err error
}

// Error returns the operation, the key, the codec and the cause.
func (e *Error) Error() string {
	return fmt.Sprintf("store: %s %q (%s): %v", e.Op, e.Key, e.Codec, e.Err)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

func (s *Store[T]) failed(op, key string, err error) error {
	return &Error{Op: op, Key: key, Codec: s.codec.Name(), Err: err}
}

// refused is failed for what was certainly not written.
func (s *Store[T]) refused(op, key string, err error) error {
	return s.failed(op, key, &retry.NotSentError{Err: err})
}
