package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/quorate/quorate/lab"
	"github.com/quorate/quorate/lab/link"
)

// startEtcd starts an empty etcd, which is also reached at the address that the tests expect. stop ends it and removes its files.
func startEtcd(ctx context.Context, address string) (stop func(), err error) {
	etcd, err := lab.Start(ctx, lab.Config{Members: 1})
	if err != nil {
		return nil, err
	}
	front, err := link.ListenAt(address, strings.TrimPrefix(etcd.DirectEndpoints()[0], "http://"))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("the tests expect an etcd at %s: %w", address, err), etcd.Close())
	}
	return func() { _ = errors.Join(front.Close(), etcd.Close()) }, nil // what is left is in the folder for temporary files
}
