// Package wire sees what a client sends and receives, through gRPC's own hooks,
// whichever client it is: [Watches] the streams of watches, [Renewals] the
// keepalives of leases.
package wire
