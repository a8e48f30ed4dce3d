package client

import (
	"context"

	"github.com/quorate/quorate/lab/robustness/linear/model"
)

// KV makes the operations of package model.
type KV interface {
	// Do makes one operation on the keys of a group, whose names it is given.
	Do(ctx context.Context, keys [model.Keys]string, request model.Request) (model.Response, error)
}
