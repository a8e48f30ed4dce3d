// Package quorate is the root of a fault-tolerant etcd v3 client for Go, and of the gRPC
// load-balancing toolkit under it. Its own code is [Channel], which makes the dial options of
// a gRPC channel that survives its backends.
//
// # Client
//
//   - clientv3: the client, with the API of go.etcd.io/etcd/client/v3
//
// and, as in the official client:
//
//   - clientv3/clientv3util: comparisons for transactions
//   - clientv3/concurrency: sessions, locks, elections, transactional memory
//   - clientv3/credentials: gRPC credentials of a client
//   - clientv3/experimental/recipes: barriers, queues, read-write locks
//   - clientv3/kubernetes: the transactions of a kube-apiserver
//   - clientv3/leasing: a linearizable cache of keys that one client owns
//   - clientv3/mirror: a prefix, and then what changes in it
//   - clientv3/mock/mockserver: a gRPC server with canned answers
//   - clientv3/namespace: a client below a prefix
//   - clientv3/naming: how services find each other through etcd
//   - clientv3/naming/endpoints: registered endpoints of a service
//   - clientv3/naming/resolver: the gRPC resolver of these
//   - clientv3/ordering: reads that do not go back in time
//   - clientv3/snapshot: a snapshot of a member in a file
//   - clientv3/yaml: the configuration from a file
//
// and beside it:
//
//   - clientv3/batch: gets of many goroutines share RPCs
//   - clientv3/idempotent: writes that are executed once and whose outcome is known
//   - clientv3/cache: watched prefixes served from memory, linearizable
//   - clientv3/clientconfig: the configuration from flags, etcdctl's variables and a URL
//   - clientv3/controller: a loop that reconciles the keys that change, with retries
//   - clientv3/jobs: a work queue whose jobs survive their workers
//   - clientv3/leaderelection: a function that runs while it leads or holds a lock, with fenced writes
//   - clientv3/store: keys as values of a Go type
//   - clientv3/mock/fakeetcd: a scripted etcd in memory, for tests
//   - etcdtest: a fakeetcd and a client of it in one line of a test, with virtual time and faults
//
// # Toolkit
//
// For services that know nothing of etcd; docs/toolkit.md shows the parts together.
//
//   - balancer: the load-balancing policy, with outlier detection
//   - balancer/policies: registers it with gRPC, with each of its strategies
//   - balancer/nearest: a strategy: the endpoint that answers soonest
//   - balancer/p2c: a strategy: the better one of two
//   - balancer/pinned: a strategy: one endpoint while it lasts
//   - balancer/roundrobin: a strategy: in turn, by weight
//   - health: the states of endpoints, and evidence
//   - health/etcdprobe: asks etcd members how they are
//   - health/grpcprobe: asks gRPC servers, by grpc.health.v1
//   - keepalive: the keepalive settings of both ends of a connection
//   - observe: hooks
//   - observe/introspect: a report on the clients and channels of a process, as JSON and as a page
//   - observe/otel: metrics and spans for OpenTelemetry
//   - observe/outage: two log lines for an outage
//   - observe/pools: statistics of pools as metrics
//   - observe/prometheus: metrics for Prometheus
//   - pool: a pool of resources
//   - pool/grpcpool: a pool of gRPC connections
//   - resolver/dns: a gRPC resolver for A, AAAA and SRV records
//   - resolver/etcd: one for services that register in etcd, and the registration
//   - resolver/kubernetes: one for EndpointSlices
//   - resolver/kubernetes/fakeapiserver: an API server in memory, for tests
//   - resolver/static: one for a list
//   - retry: what an error proves, what may be repeated, and when
//
// and for frameworks, as modules of their own:
//
//   - adapters/gozero: registers and resolves the services of go-zero
//   - adapters/kratos: the registry of go-kratos
//
// # Evidence
//
// What shows that it works: lab (real clusters under faults), conformance (etcd's own tests),
// cmd/quorate-lab (the commands), examples.
//
// docs/packages.md has the stability of each package; DESIGN.md describes how they fit together.
package quorate
