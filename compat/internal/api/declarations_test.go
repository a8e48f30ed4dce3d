package api

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestDeclarations(t *testing.T) {
	require.Equal(t, []string{
		"const Limit untyped int = 10",
		"func (*Client).Close() error",
		"func New(name string, opts ...Option) (*Client, error)",
		"type Base struct",
		"type Client struct",
		"type Client struct, field KV KV",
		"type Client struct, field Name string",
		"type Client struct, field Size int",
		"type Closed interface",
		"type Closed interface, hidden()",
		"type ID int32",
		"type KV interface",
		"type KV interface, Get(ctx context.Context, key string, opts ...Option) (*Response, error)",
		"type Lock struct",
		"type Option func(*options)",
		"type Response struct",
		"type Response struct, field Keys []string",
		"var Err error",
	}, Declarations(check(t, official)))
	require.Equal(t, []string{
		"func (*Set[T]).Add(T)",
		"func Of[T any](...T) *Set[int]",
		"type Alias = Set[int]",
		"type Set[T comparable] struct",
		"type Set[T comparable] struct, field All map[T]bool",
	}, Declarations(check(t, `package p

type Set[T comparable] struct{ All map[T]bool }

func (s *Set[T]) Add(T) {}

func Of[T any](...T) *Set[int] { return nil }

type Alias = Set[int]
`)))
}
