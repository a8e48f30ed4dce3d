package client

import "errors"

// ErrClosed says that the client closed a channel that was still wanted.
var ErrClosed = errors.New("the client closed the channel")
