// Package compat documents the module that lets programs of the official etcd client run on Quorate unchanged.
//
// The directory clientv3 holds a module named go.etcd.io/etcd/client/v3 which forwards to ours. Shimgen generates it,
// and apicheck compares what it offers with the official client.
package compat

//go:generate go run ./shimgen
//go:generate go mod tidy -C clientv3
//go:generate go run ./apicheck -page additions.md
