package store

import (
	"encoding/json"

	"google.golang.org/protobuf/proto"
)

// Codec encodes and decodes values of type T. It must be safe for concurrent use.
type Codec[T any] interface {
	// Name returns the name of the codec in errors.
	Name() string
	// Encode returns the bytes that are stored for a value.
	Encode(value T) ([]byte, error)
	// Decode returns the value of what Encode returned. It must not keep data.
	Decode(data []byte) (T, error)
}

// codec is a Codec of two functions.
type codec[T any] struct {
	name   string
	encode func(T) ([]byte, error)
	decode func([]byte) (T, error)
}

func (c codec[T]) Name() string                   { return c.name }
func (c codec[T]) Encode(value T) ([]byte, error) { return c.encode(value) }
func (c codec[T]) Decode(data []byte) (T, error)  { return c.decode(data) }

// JSON returns the codec "json", that of package encoding/json.
func JSON[T any]() Codec[T] {
	return codec[T]{
		name:   "json",
		encode: func(value T) ([]byte, error) { return json.Marshal(value) },
		decode: func(data []byte) (value T, err error) {
			err = json.Unmarshal(data, &value)
			return value, err
		},
	}
}

// Proto returns the codec "protobuf", for a pointer to a generated message. The binary form is deterministic for one
// version of the program.
func Proto[T proto.Message]() Codec[T] {
	return codec[T]{
		name:   "protobuf",
		encode: func(value T) ([]byte, error) { return proto.MarshalOptions{Deterministic: true}.Marshal(value) },
		decode: func(data []byte) (T, error) {
			var none T
			value := none.ProtoReflect().New().Interface().(T)
			return value, proto.Unmarshal(data, value)
		},
	}
}

// Bytes returns the codec "bytes": values as they are stored.
func Bytes() Codec[[]byte] {
	return codec[[]byte]{
		name:   "bytes",
		encode: func(value []byte) ([]byte, error) { return value, nil },
		decode: func(data []byte) ([]byte, error) { return append([]byte{}, data...), nil },
	}
}
