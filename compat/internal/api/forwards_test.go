package api

import (
	"go/types"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/compat/internal/source"
)

const ours = `package p

const Limit = 10

var Err error

type Client struct{ Name string }

type Set[K comparable, V any] map[K]V

func New(name string, keys ...string) (*Client, error) { return nil, nil }

func First[K comparable, V any](s Set[K, V]) K { panic("none") }
`

const forwarder = `package p

import quorate "quorate/p"

const Limit = quorate.Limit

var Err = quorate.Err

type Client = quorate.Client

type Set[K comparable, V any] = quorate.Set[K, V]

func New(name string, keys ...string) (*Client, error) { return quorate.New(name, keys...) }

func First[K comparable, V any](s Set[K, V]) K { return quorate.First[K, V](s) }
`

// TestForwardingIsChecked changes one thing of a shim at a time.
func TestForwardingIsChecked(t *testing.T) {
	tests := map[string]struct{ old, new, want string }{
		"nothing":               {},
		"function left out":     {old: "func First[", new: "func first[", want: "First: left out by the shim"},
		"type of its own":       {old: "type Client = quorate.Client", new: "type Client struct{ Name string }", want: "Client: changed by the shim"},
		"generic of its own":    {old: "V any] = quorate.Set[K, V]", new: "V any] map[K]V", want: "Set: changed by the shim"},
		"another type":          {old: "= quorate.Client", new: "= *quorate.Client", want: "Client: changed by the shim"},
		"another value":         {old: "= quorate.Limit", new: "= 11", want: "Limit: changed by the shim"},
		"typed constant":        {old: "Limit = quorate.Limit", new: "Limit int = quorate.Limit", want: "Limit: changed by the shim"},
		"another variable type": {old: "Err = quorate.Err", new: "Err any = quorate.Err", want: "Err: changed by the shim"},
		"constant for variable": {old: "var Err = quorate.Err", new: "const Err = 1", want: "Err: changed by the shim"},
		"variable for function": {old: "func New(name string, keys ...string) (*Client, error) { return quorate.New(name, keys...) }", new: "var New = quorate.New", want: "New: changed by the shim"},
		"no longer variadic":    {old: "func New(name string, keys ...string)", new: "func New(name string, keys []string)", want: "New: changed by the shim"},
		"something more":        {old: "var Err", new: "var More int\n\nvar Err", want: "More: made up by the shim"},
	}
	quorate := checkWith(t, source.Quorate+"/p", ours, standard)
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			require.Contains(t, forwarder, test.old)
			changed := strings.Replace(forwarder, test.old, test.new, 1)
			got := forwards(checkWith(t, source.Official+"/p", changed, oneImport{quorate}), quorate)
			if test.want == "" {
				require.Empty(t, got)
			} else {
				require.Contains(t, got, test.want)
			}
		})
	}
	require.Equal(t, []string{"the package is not in the shim"}, forwards(nil, quorate))
}

// oneImport finds the same package at every path.
type oneImport struct{ pkg *types.Package }

func (i oneImport) Import(string) (*types.Package, error) { return i.pkg, nil }
