//go:build !kubernetes

package main

import (
	"errors"

	"google.golang.org/grpc/resolver"
)

// builder returns what to do about the resolver for Kubernetes services, which would more than
// double the size of the program.
func (kubernetesFlags) builder() (resolver.Builder, error) {
	return nil, errors.New("this build of quorate cannot resolve kubernetes targets; install it with\n" +
		"  go install -tags kubernetes github.com/quorate/quorate/cmd/quorate@latest")
}
