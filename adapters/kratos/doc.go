// Package kratos is a registry of go-kratos over etcd whose registrations come back after an outage.
//
//	registry, err := quoratekratos.New(client, quoratekratos.Config{})
//	…
//	app := kratos.New(kratos.Name("users"), kratos.Server(grpcServer), kratos.Registrar(registry))
//	…
//	conn, err := grpc.DialInsecure(ctx, grpc.WithEndpoint("discovery:///users"), grpc.WithDiscovery(registry))
//
// Keys and values are those of kratos' contrib/registry/etcd, so services with either registry find each other, and move
// one by one.
package kratos
