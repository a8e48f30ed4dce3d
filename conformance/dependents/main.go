// Command dependents is a program whose dependencies use the official etcd client, built
// over Quorate by the replace line of its go.mod. It prints what it is made of.
//
// The tests of those dependencies are run over Quorate by the command in folder
// conformance.
package main

import (
	"fmt"
	"runtime/debug"

	_ "github.com/coredns/coredns/plugin/etcd"
	_ "github.com/google/trillian/quota/etcd"
	_ "github.com/google/trillian/quota/etcd/etcdqm"
	_ "github.com/google/trillian/quota/etcd/quotaapi"
	_ "github.com/google/trillian/quota/etcd/storage"
	_ "github.com/google/trillian/util/election2/etcd"
	_ "k8s.io/apiserver/pkg/server/options"
	_ "k8s.io/apiserver/pkg/storage/etcd3"
	_ "k8s.io/apiserver/pkg/storage/etcd3/preflight"
)

func main() {
	info, _ := debug.ReadBuildInfo()
	fmt.Print(info)
}
