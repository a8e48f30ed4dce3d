package watch

import (
	"errors"
	"strings"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
)

// refusal turns the reason that a server gives for not creating a watch into an
// error: the one of rpctypes if there is one with that text. etcd gives some
// reasons as it prints an error of gRPC, with the code in front, and its
// grpc-proxy gives the same ones bare.
func refusal(reason string) error {
	text := reason
	if strings.HasPrefix(text, "rpc error: code = ") {
		if _, desc, ok := strings.Cut(text, " desc = "); ok {
			text = desc
		}
	}
	var known rpctypes.EtcdError
	if err := rpctypes.Error(errors.New(text)); errors.As(err, &known) {
		return err
	}
	return errors.New(reason)
}
