// Package consumer is a program of the official etcd client that a test of package compat compiles over the shim, with the
// replace line that its users write. It has the tests that compile only there.
package consumer
