// Package compat documents the module that lets programs of the official etcd client run on Quorate unchanged.
//
// The directory clientv3 holds a module named go.etcd.io/etcd/client/v3 which forwards to ours. A test generates
// it, and another one compares what it offers with the official client.
package compat

//go:generate go test -run TestShimIsFresh . -update
//go:generate go mod tidy -C clientv3
//go:generate go test -run TestAPIIsTheOfficialOne . -update
