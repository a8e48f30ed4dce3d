//go:build !noserver

package lab

import "go.etcd.io/etcd/server/v3/etcdmain"

// serve is the main function of etcd.
var serve = etcdmain.Main
