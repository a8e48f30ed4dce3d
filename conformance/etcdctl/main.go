// Command etcdctl is etcd's own etcdctl, compiled over Quorate: the commands,
// flags and output are those of etcd, the client below them is Quorate.
//
//	cd conformance/etcdctl && GOWORK=off go build .
//
// The replacement of go.etcd.io/etcd/client/v3 in this module's go.mod is all that
// makes the difference.
package main

import "go.etcd.io/etcd/etcdctl/v3/ctlv3"

func main() {
	ctlv3.MustStart()
}
