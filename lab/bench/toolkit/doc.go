// Package toolkit runs scenarios over channels of this library and of plain gRPC, and measures what callers see. Backends and
// callers are in one process; calls go over TCP.
//
//	go test ./lab/bench/toolkit -run '^$' -bench . -timeout 1h                               all, once; ten minutes
//	go test ./lab/bench/toolkit -run '^$' -bench . -benchtime 3x -timeout 2h                 medians of three rounds
//	go test ./lab/bench/toolkit -run '^$' -bench '/(frozen|slow)'                            some scenarios
//	go test ./lab/bench/toolkit -run '^$' -bench '//(quorate|^round_robin$)' -timeout 1h     some policies
//
// The 2,000 backends need 6,500 open files (ulimit -n).
package toolkit
