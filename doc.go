// Package quorate is the root of a fault-tolerant etcd v3 client for Go, and of
// the gRPC toolkit that it is made of. It holds no code: programs import
//
//   - github.com/quorate/quorate/clientv3, the client, with the API of
//     go.etcd.io/etcd/client/v3;
//   - github.com/quorate/quorate/retry, the error handler: what an error proves,
//     what may be repeated, when;
//   - github.com/quorate/quorate/internal/endpoint, what an endpoint string means;
//   - github.com/quorate/quorate/clientv3/mock/fakeetcd, a scripted etcd for tests.
//
// DESIGN.md describes how they fit together.
package quorate
