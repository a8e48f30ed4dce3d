package health_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/health"
)

func TestFromServer(t *testing.T) {
	tests := []struct {
		name string
		err  error
		want bool
	}{
		{"success", nil, true},
		{"permission denied", status.Error(codes.PermissionDenied, ""), true},
		{"unauthenticated", status.Error(codes.Unauthenticated, ""), true},
		{"unimplemented", status.Error(codes.Unimplemented, ""), true},
		{"an error without a status", errors.New("?"), true},
		{"a broken connection", status.Error(codes.Unavailable, "connection reset"), false},
		{"a broken stream", status.Error(codes.Internal, "stream terminated by RST_STREAM"), false},
		{"a deadline", status.Error(codes.DeadlineExceeded, ""), false},
		{"a deadline that the server was first to see", status.Error(codes.Canceled, ""), false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			assert.Equal(t, tt.want, health.FromServer(tt.err))
		})
	}
}
