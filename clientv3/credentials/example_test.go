package credentials_test

import (
	"context"
	"fmt"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/clientv3/credentials"
	"github.com/quorate/quorate/clientv3/mock/fakeetcd"
)

// A connection of one's own to an etcd that demands authentication.
func Example() {
	cluster, err := fakeetcd.Start(1) // an etcd in memory
	if err != nil {
		panic(err)
	}
	defer cluster.Close()
	bundle := credentials.NewPerRPCCredentialBundle()
	conn, err := cluster.Member(0).Dial(grpc.WithPerRPCCredentials(bundle.PerRPCCredentials()))
	if err != nil {
		panic(err)
	}
	defer conn.Close()
	ctx := context.Background()
	demandAuthentication(ctx, pb.NewAuthClient(conn))

	kv := pb.NewKVClient(conn)
	_, err = kv.Put(ctx, &pb.PutRequest{Key: []byte("k"), Value: []byte("v")})
	fmt.Println("without a token:", status.Convert(err).Message())

	resp, err := pb.NewAuthClient(conn).Authenticate(ctx, &pb.AuthenticateRequest{Name: "root", Password: "secret"})
	if err != nil {
		panic(err)
	}
	bundle.UpdateAuthToken(resp.Token)
	_, err = kv.Put(ctx, &pb.PutRequest{Key: []byte("k"), Value: []byte("v")})
	fmt.Println("with one:", err)
	// Output:
	// without a token: etcdserver: user name is empty
	// with one: <nil>
}

func demandAuthentication(ctx context.Context, auth pb.AuthClient) {
	if _, err := auth.UserAdd(ctx, &pb.AuthUserAddRequest{Name: "root", Password: "secret"}); err != nil {
		panic(err)
	}
	if _, err := auth.UserGrantRole(ctx, &pb.AuthUserGrantRoleRequest{User: "root", Role: "root"}); err != nil {
		panic(err)
	}
	if _, err := auth.AuthEnable(ctx, &pb.AuthEnableRequest{}); err != nil {
		panic(err)
	}
}
