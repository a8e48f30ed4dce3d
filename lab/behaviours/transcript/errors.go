package transcript

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/status"
)

// sentinels are the errors that programs look for with errors.Is.
var sentinels = []error{context.Canceled, context.DeadlineExceeded, io.EOF, io.ErrClosedPipe}

// describe returns everything about an error that a program can depend on: its text, what it is when compared with ==
// or asserted to a type, its gRPC code, and which sentinels errors.Is finds in it.
func describe(err error) string {
	if err == nil {
		return ""
	}
	text := fmt.Sprintf("text: %q\nkind: %s\ncode: %v", err.Error(), kind(err), status.Code(err))
	for _, sentinel := range sentinels {
		if errors.Is(err, sentinel) {
			text += fmt.Sprintf("\nis: %v", sentinel)
		}
	}
	return text
}

// kind returns how a program can recognise an error without unwrapping it.
func kind(err error) string {
	if slices.Contains(sentinels, err) {
		return "== a sentinel"
	}
	switch err := err.(type) { //nolint:errorlint // whether the error is bare is the question
	case rpctypes.EtcdError:
		// No two variables of rpctypes share a text.
		if rpctypes.Error(status.Error(err.Code(), err.Error())) == error(err) { //nolint:errorlint // == is what programs use
			return "rpctypes.EtcdError, == its variable"
		}
		return "rpctypes.EtcdError, unlike its variable"
	case interface{ GRPCStatus() *status.Status }:
		return "gRPC status"
	}
	if _, wrapped := errors.AsType[rpctypes.EtcdError](err); wrapped {
		return "wrapped rpctypes.EtcdError"
	}
	return "plain"
}
