// Package bench measures Quorate side by side with the official etcd client, against the same real servers in the same run.
//
//	go test ./lab/bench -run '^$' -bench . -benchtime 5x -timeout 1h     everything, a quarter of an hour
//	go test ./lab/bench -run '^$' -bench '/(create|idle)$' -benchtime 5x
//	go test ./lab/bench -run '^$' -bench . -benchtime 1x -short          small sizes, a minute, to see that it works
//
// Each sample is taken in a process of its own, on a new cluster; the two clients take turns. Results are medians:
// <metric>-official, <metric>-quorate, and <metric>-ratio, which is Quorate's divided by the official client's. Package cases
// says what each case measures.
package bench
