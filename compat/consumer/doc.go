// Package consumer is a program of the official etcd client, in the form of tests that touch each of its packages.
//
// Its source is compiled twice. As a package of this module it runs on the official client, which shows that the
// program is right; over the shim, with the replace lines that a test of package compat adds, it runs on Quorate. The
// build tag overshim adds what is only true there.
package consumer
