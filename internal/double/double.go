// Package double helps to make a call twice at the same time.
package double

import (
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// Allowed reports whether a call with these options can be made twice at the same time.
// Options that bring something back for the caller cannot be shared, and of those that are
// not known it is not known.
func Allowed(opts []grpc.CallOption) bool {
	for _, opt := range opts {
		switch opt.(type) {
		case grpc.EmptyCallOption, grpc.FailFastCallOption, grpc.StaticMethodCallOption,
			grpc.MaxRecvMsgSizeCallOption, grpc.MaxSendMsgSizeCallOption, grpc.MaxRetryRPCBufferSizeCallOption,
			grpc.CompressorCallOption, grpc.ContentSubtypeCallOption,
			grpc.PerRPCCredsCallOption, grpc.AuthorityOverrideCallOption:
		default:
			return false
		}
	}
	return true
}

// Move makes into what from is, which must not be used after that.
func Move(into, from proto.Message) {
	proto.Reset(into)
	to, of := into.ProtoReflect(), from.ProtoReflect()
	of.Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		to.Set(field, value)
		return true
	})
	to.SetUnknown(of.GetUnknown())
}
