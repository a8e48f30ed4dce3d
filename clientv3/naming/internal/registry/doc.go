// Package registry reads the endpoints that are registered below a target, and
// follows them: for package endpoints, which hands on every change, and for
// package resolver, which wants to know of errors as well.
package registry
