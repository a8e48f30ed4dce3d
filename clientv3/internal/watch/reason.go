package watch

import (
	"errors"
	"strings"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
)

// refusesID reports whether a server may have refused a create for the id in it. kine
// refuses every create with an id as an invalid argument; etcd never does.
func refusesID(resp *pb.WatchResponse) bool {
	_, known := errors.AsType[rpctypes.EtcdError](refusal(resp.CancelReason))
	return !known && strings.HasPrefix(resp.CancelReason, "rpc error: code = InvalidArgument ")
}

// isDenial reports whether a refusal says that the user has no permission.
func isDenial(refusal error) bool { return errors.Is(refusal, rpctypes.ErrPermissionDenied) }

// refusal converts a server's reason for refusing a watch into an error: the one in
// rpctypes with that text, if there is one. etcd sends some reasons as printed gRPC
// errors, with the code in front; its grpc-proxy sends the same texts without the
// code.
func refusal(reason string) error {
	text := reason
	if strings.HasPrefix(text, "rpc error: code = ") {
		if _, desc, ok := strings.Cut(text, " desc = "); ok {
			text = desc
		}
	}
	if known, ok := errors.AsType[rpctypes.EtcdError](rpctypes.Error(errors.New(text))); ok {
		return known
	}
	return errors.New(reason)
}
