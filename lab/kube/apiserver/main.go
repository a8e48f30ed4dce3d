// Command kube-apiserver is the API server of Kubernetes, compiled from its
// released modules, so that the tests of the Kubernetes resolver meet the real
// one on any machine that has Go. `make kube-apiserver` builds it into the folder bin
// here; without make:
//
//	cd lab/kube/apiserver && GOWORK=off go build -o bin/kube-apiserver .
//
// It is a module of its own because half of Kubernetes is needed to build it.
// k8s.io/kubernetes itself refers to its parts by folders of its repository; the
// replacements in go.mod name the released modules that are made of them.
package main

import (
	"os"

	"k8s.io/component-base/cli"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"
)

func main() {
	os.Exit(cli.Run(app.NewAPIServerCommand()))
}
