// Package pools measures the pools side by side with what they replace, in the same rounds. Results are medians of the
// rounds; the unit <contender>-x-first is the ratio of a contender's first metric to that of the first contender.
//
//	go test ./lab/bench/pools -run '^$' -bench . -benchtime 5x
//	go test ./lab/bench/pools -run '^$' -bench '/(limit|upload)' -benchtime 5x
//
// The pool of gRPC connections (grpcpool) is compared with one connection, and with several
// that calls go to in turn, which is what pools of connections usually do. The pool of
// resources (pool) is compared with jackc/puddle. Clients and servers share the machine. If
// other programs do, too, those cases that are about single milliseconds (upload, download) need
// real-time priority, of which they use little:
//
//	go test -c ./lab/bench/pools && chrt -r 1 ./pools.test -test.run '^$' -test.bench '/(upload|download)' -test.benchtime 3x
package pools
