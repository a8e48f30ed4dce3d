package api

import (
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/compat/internal/source"
)

// official is a package in the manner of the official client's.
const official = `package p

import ("context"; "sync"; "time")

const Limit = 10

var Err error

type Client struct {
	KV
	Name string ` + "`json:\"name\"`" + `
	Size int
}

func (c *Client) Close() error { return nil }

type KV interface {
	Get(ctx context.Context, key string, opts ...Option) (*Response, error)
}

type Closed interface{ hidden() }

type options struct{ Prefix bool }

type Option func(*options)

type Response struct{ Keys []string }

type ID int32

type Base time.Time

type Lock sync.Mutex

func New(name string, opts ...Option) (*Client, error) { return nil, nil }
`

// TestDifferencesAreFound changes one thing of a package at a time. An empty expectation stands for a change that no
// program notices.
func TestDifferencesAreFound(t *testing.T) {
	tests := map[string]struct {
		old, new                           string
		missing, incompatible, added, note string
	}{
		"nothing":                   {},
		"other parameter names":     {old: "New(name string", new: "New(n string"},
		"unexported type renamed":   {old: "options struct{ Prefix bool }\n\ntype Option func(*options)", new: "settings struct{ Prefix bool }\n\ntype Option func(*settings)"},
		"any for interface":         {old: "Err error", new: "Err interface{ Error() string }", incompatible: "Err: changed from error to interface{Error() string}"},
		"missing function":          {old: "func New(", new: "func newClient(", missing: "New: removed"},
		"missing method":            {old: "Close()", new: "close()", missing: "(*Client).Close: removed"},
		"missing field":             {old: "Size int", new: "size int", missing: "Client.Size: removed", note: "Client{…} without field names does not compile: it has other fields, or another order: KV, Name, size"},
		"missing variable":          {old: "var Err ", new: "var err ", missing: "Err: removed"},
		"changed signature":         {old: "New(name string,", new: "New(name []byte,", incompatible: "New: changed from func(string, ...Option) (*Client, error) to func([]byte, ...Option) (*Client, error)"},
		"slice instead of variadic": {old: "New(name string, opts ...Option)", new: "New(name string, opts []Option)", incompatible: "New: changed from func(string, ...Option) (*Client, error) to func(string, []Option) (*Client, error)"},
		"changed field":             {old: "Size int", new: "Size int64", incompatible: "Client.Size: changed from int to int64"},
		"changed constant":          {old: "Limit = 10", new: "Limit = 11", incompatible: "Limit: value changed from 10 to 11"},
		"typed constant":            {old: "Limit = 10", new: "Limit int = 10", incompatible: "Limit: changed from untyped int to int"},
		"wider integer":             {old: "ID int32", new: "ID int64", incompatible: "ID: changed from int32 to int64"},
		"variable for a function":   {old: "func New(name string, opts ...Option) (*Client, error) { return nil, nil }", new: "var New func(name string, opts ...Option) (*Client, error)", incompatible: "New: changed from func to var"},
		"value receiver":            {old: "(c *Client) Close", new: "(c Client) Close", added: "Client.Close"},
		"method to implement":       {old: "type KV interface {", new: "type KV interface {\nPut()", incompatible: "KV.Put: added"},
		"unexported method":         {old: "type KV interface {", new: "type KV interface {\nput()", incompatible: "KV.put: added unexported method"},
		"method that none may add":  {old: "hidden()", new: "hidden(); Shown()", added: "Closed.Shown"},
		"tag":                       {old: `json:"name"`, new: `json:"Name"`, incompatible: "Client.Name: tag changed from \"json:\\\"name\\\"\" to \"json:\\\"Name\\\"\""},
		"no conversion":             {old: "type Base time.Time", new: "type Base struct{ wall uint64; ext int64; loc *time.Location }", incompatible: "Base: can no longer be converted to the type that it is defined from"},
		"another package name":      {old: "package p", new: "package q", incompatible: "package p: is called q"},
		"alias of a basic type":     {old: "ID int32", new: "ID = int32", incompatible: "ID: is an alias and no type of its own"},
		"alias of another type":     {old: "Response struct{ Keys []string }", new: "Response = Reply\n\ntype Reply struct{ Keys []string }", incompatible: "Response: is an alias and no type of its own", added: "Reply"},
		"function added":            {old: "var Err error", new: "var Err error\nfunc Close() {}", added: "Close"},
		"type added":                {old: "var Err error", new: "var Err error\ntype Monitor struct{ Alive bool }", added: "Monitor"},
		"field added":               {old: "Keys []string", new: "Keys []string; More bool", added: "Response.More", note: "Response{…} without field names does not compile: it has more fields: More"},
		"fields in another order":   {old: "\tKV\n\tName", new: "\tName string `json:\"name\"`\n\tKV\n\tname", note: "Client{…} without field names does not compile: it has other fields, or another order: Name, KV, name, Size"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			require.Contains(t, official, test.old)
			r := Compare(check(t, official), check(t, strings.Replace(official, test.old, test.new, 1)))
			for _, list := range []struct {
				want string
				got  []string
			}{{test.missing, r.Missing}, {test.incompatible, r.Incompatible}, {test.added, r.Added}, {test.note, r.Notes}} {
				if list.want == "" {
					require.Empty(t, list.got)
				} else {
					require.Equal(t, []string{list.want}, list.got)
				}
			}
			require.Equal(t, test.missing+test.incompatible == "", r.Passes())
			require.Equal(t, 11, r.Identifiers)
		})
	}
}

// check compiles one file as a package at the official path.
func check(t *testing.T, content string) *types.Package {
	t.Helper()
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, "p.go", content, 0)
	require.NoError(t, err)
	config := types.Config{Importer: standard, IgnoreFuncBodies: true}
	pkg, err := config.Check(source.Official+"/p", fset, []*ast.File{file}, nil)
	require.NoError(t, err)
	return pkg
}

// standard imports packages of the standard library, as they were compiled.
var standard = importer.Default()
