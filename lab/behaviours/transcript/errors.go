package transcript

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/status"
)

// sentinels are the errors that programs look for with errors.Is.
var sentinels = []struct {
	name string
	err  error
}{
	{"context.Canceled", context.Canceled},
	{"context.DeadlineExceeded", context.DeadlineExceeded},
	{"io.EOF", io.EOF},
	{"io.ErrClosedPipe", io.ErrClosedPipe},
}

// describe returns everything about an error that a program can depend on: its text, what it is when compared with ==
// or asserted to a type, its gRPC code, and which sentinels errors.Is finds in it.
func describe(err error) string {
	if err == nil {
		return ""
	}
	lines := []string{
		fmt.Sprintf("text: %q", err.Error()),
		"kind: " + kind(err),
		"code: " + status.Code(err).String(),
	}
	for _, s := range sentinels {
		if errors.Is(err, s.err) {
			lines = append(lines, "is:   "+s.name)
		}
	}
	return strings.Join(lines, "\n")
}

// kind tells how a program can recognise an error without unwrapping it.
func kind(err error) string {
	for _, s := range sentinels {
		if err == s.err { //nolint:errorlint // whether the error is bare is the question
			return "== " + s.name
		}
	}
	switch err := err.(type) { //nolint:errorlint // whether the error is bare is the question
	case rpctypes.EtcdError:
		return "rpctypes.EtcdError, " + known(err)
	case interface{ GRPCStatus() *status.Status }:
		return "gRPC status"
	}
	if _, wrapped := errors.AsType[rpctypes.EtcdError](err); wrapped {
		return "wrapped rpctypes.EtcdError"
	}
	return "plain"
}

// known tells whether an EtcdError equals the variable of rpctypes with its text. No two of them share a text.
func known(err rpctypes.EtcdError) string {
	if rpctypes.Error(status.Error(err.Code(), err.Error())) == error(err) { //nolint:errorlint // == is what programs use
		return "== its variable"
	}
	return "unlike its variable"
}
