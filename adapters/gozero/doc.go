// Package gozero registers and resolves the services of go-zero through etcd, so that registrations come back after an outage.
//
//	client, err := gozero.NewClient(c.Etcd, clientv3.Config{})
//	…
//	_, err = gozero.Register(ctx, client, c.Etcd, c.ListenOn)
//	…
//	c.Etcd = discov.EtcdConf{} // go-zero does not register it a second time
//	server := zrpc.MustNewServer(c, register)
//
// Callers keep their configuration, and get the resolver:
//
//	builder, err := gozero.NewResolver(client, etcd.Config{})
//	…
//	users := zrpc.MustNewClient(c.Users, zrpc.WithDialOption(grpc.WithResolvers(builder)))
//
// Keys and values are those of go-zero's core/discov, so services with either find each other, and move one by one.
package gozero
