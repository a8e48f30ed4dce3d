// Command dependents is a program whose dependencies use the official etcd client, built
// over Quorate by the replace line of its go.mod. It prints what it is made of.
//
// The tests of those dependencies are run over Quorate by the command in folder
// conformance.
package main

import (
	"fmt"
	"os"
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

// shown are the dependencies that use an etcd client, and the client.
var shown = []string{
	"github.com/coredns/coredns",
	"github.com/google/trillian",
	"k8s.io/apiserver",
	"go.etcd.io/etcd/client/v3",
}

func main() {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		fmt.Fprintln(os.Stderr, "dependents: this program was built without module information: use go build or go run")
		os.Exit(1)
	}
	show(info)
}

func show(info *debug.BuildInfo) {
	versions := make(map[string]string)
	for _, m := range info.Deps {
		versions[m.Path] = m.Version
		if m.Replace != nil {
			versions[m.Path] += " => " + m.Replace.Path + " " + m.Replace.Version
		}
	}
	for _, path := range shown {
		fmt.Printf("%-26s %s\n", path, versions[path])
	}
}
