package hedge

import (
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// Allowed reports whether a call with these options can be sent twice at the same time. It is
// false for options that return something to the caller, and for unknown ones.
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

// move moves the contents of from to into; from must not be used afterwards.
func move(into, from proto.Message) {
	proto.Reset(into)
	to, of := into.ProtoReflect(), from.ProtoReflect()
	of.Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		to.Set(field, value)
		return true
	})
	to.SetUnknown(of.GetUnknown())
}
