package main

import (
	"context"
	"fmt"
	"net/url"
	"os"

	"go.etcd.io/etcd/server/v3/embed"
)

// startEtcd starts an empty etcd at the address that the tests expect. stop ends it and
// removes its files.
func startEtcd(ctx context.Context, address string) (stop func(), err error) {
	dir, err := os.MkdirTemp("", "quorate-conformance-etcd-")
	if err != nil {
		return nil, err
	}
	remove := func() { _ = os.RemoveAll(dir) } // what is left is in the folder for temporary files
	cfg := embed.NewConfig()
	cfg.Dir = dir
	cfg.LogLevel = "fatal" // it logs its end as an error
	cfg.UnsafeNoFsync = true
	cfg.ListenClientUrls = []url.URL{{Scheme: "http", Host: address}}
	cfg.AdvertiseClientUrls = cfg.ListenClientUrls
	cfg.ListenPeerUrls = []url.URL{{Scheme: "http", Host: "localhost:0"}}
	etcd, err := embed.StartEtcd(cfg)
	if err != nil {
		remove()
		return nil, fmt.Errorf("the tests expect an etcd at %s, which cannot be started: %w", address, err)
	}
	stop = func() {
		etcd.Close()
		remove()
	}
	select {
	case <-etcd.Server.ReadyNotify():
		return stop, nil
	case err := <-etcd.Err():
		stop()
		return nil, fmt.Errorf("etcd at %s: %w", address, err)
	case <-ctx.Done():
		stop()
		return nil, ctx.Err()
	}
}
