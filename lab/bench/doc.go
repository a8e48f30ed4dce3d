// Package bench measures Quorate side by side with the official etcd client, against the same real servers: a process with many
// watches or leases (BenchmarkClients), and a cluster with many clients (BenchmarkFleet).
//
//	go test ./lab/bench -run '^$' -bench Clients -benchtime 3x -timeout 1h                    a quarter of an hour
//	go test ./lab/bench -run '^$' -bench 'Clients/(create|idle)$' -benchtime 5x -short        small sizes
//	go test ./lab/bench -run '^$' -bench 'Fleet/(idle|no-quorum)$'                            two minutes
//	go test ./lab/bench -run '^$' -bench 'Fleet/storm' -clients 1000 -processes 10
//	go test ./lab/bench -run '^$' -bench 'Fleet/badcert' -clients 19
//
// Each sample is taken on a new cluster; the two clients take turns. Results are medians, <metric>-<unit>-<client>.
package bench
