package kubernetes

import (
	"io"
	"testing"

	"go.uber.org/goleak"
	"google.golang.org/grpc/grpclog"
)

func TestMain(m *testing.M) {
	recorded.LoggerV2 = grpclog.NewLoggerV2(io.Discard, io.Discard, io.Discard)
	grpclog.SetLoggerV2(recorded)
	goleak.VerifyTestMain(m)
}
