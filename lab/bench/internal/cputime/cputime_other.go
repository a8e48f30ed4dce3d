//go:build !unix

// Package cputime measures the CPU time of the running process.
package cputime

import "time"

// Used returns 0: clusters do not start on these platforms.
func Used() time.Duration { return 0 }
