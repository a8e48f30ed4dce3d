package repository

import (
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const module = "github.com/quorate/quorate"

// layers lists every layer of the library with the layers that it may import:
// those below it. A package belongs to the layer with the longest matching path.
var layers = map[string][]string{
	"":                          {"balancer", "keepalive", "retry", "observe", "observe/introspect", "internal/hedge", "internal/observed"},
	"internal/hedge":            {"balancer", "internal/pause", "observe", "retry"},
	"internal/endpoint":         {},
	"internal/fatal":            {},
	"retry":                     {},
	"internal/feed":             {"internal/pause"},
	"internal/lastgood":         {},
	"internal/pause":            {},
	"internal/port":             {},
	"internal/repository":       {},
	"internal/proxy":            {"internal/endpoint"},
	"internal/slogzap":          {},
	"internal/testpki":          {},
	"internal/utf8text":         {},
	"internal/grpctest":         {},
	"health":                    {},
	"balancer":                  {"health", "balancer/internal/probe"},
	"balancer/internal/probe":   {},
	"internal/leader":           {"balancer", "health"},
	"observe":                   {"health"},
	"observe/introspect":        {"observe"},
	"observe/outage":            {"observe", "health", "internal/pause"},
	"observe/pools":             {"observe", "pool", "pool/grpcpool"},
	"internal/observed":         {"balancer", "health", "observe", "observe/introspect"},
	"internal/channel":          {"internal/endpoint", "retry", "health", "balancer", "observe", "observe/introspect", "internal/leader", "internal/observed", "internal/pause", "internal/proxy", "internal/hedge"},
	"keepalive":                 {},
	"pool":                      {"balancer"},
	"clientv3/internal/cost":    {},
	"clientv3/internal/grant":   {},
	"clientv3/internal/lineage": {},
	"clientv3/internal/watch":   {"clientv3/internal/lineage", "internal/pause", "observe/introspect"},
	"clientv3/internal/lease":   {"internal/pause", "observe", "observe/introspect"},
	"clientv3": {
		"internal/channel", "internal/slogzap", "retry", "health", "balancer", "observe", "observe/introspect", "observe/outage",
		"clientv3/internal/lineage", "clientv3/internal/watch", "clientv3/internal/lease",
	},
	"clientv3/internal/semantics":       {},
	"clientv3/mock/fakeetcd":            {"clientv3/internal/semantics"},
	"clientv3/mock/mockserver":          {},
	"etcdtest":                          {"clientv3", "clientv3/mock/fakeetcd", "retry"},
	"clientv3/internal/clienttest":      {"clientv3", "clientv3/internal/optxn", "clientv3/mock/fakeetcd"},
	"clientv3/internal/optxn":           {"clientv3"},
	"clientv3/internal/reply":           {"clientv3"},
	"clientv3/internal/settle":          {"clientv3", "retry"},
	"clientv3/internal/staleness":       {},
	"clientv3/clientconfig":             {"clientv3", "internal/endpoint"},
	"clientv3/batch":                    {"clientv3", "clientv3/internal/optxn", "clientv3/internal/reply", "observe", "retry"},
	"clientv3/cache":                    {"clientv3", "clientv3/internal/lineage", "clientv3/internal/reply", "clientv3/internal/semantics", "clientv3/internal/staleness", "internal/pause", "observe", "retry"},
	"clientv3/controller":               {"clientv3/cache", "internal/pause", "retry"},
	"clientv3/clientv3util":             {"clientv3"},
	"clientv3/concurrency":              {"clientv3", "clientv3/internal/grant", "clientv3/internal/optxn", "clientv3/internal/reply", "clientv3/internal/settle", "internal/pause", "retry"},
	"clientv3/credentials":              {},
	"clientv3/experimental/recipes":     {"clientv3", "clientv3/concurrency", "clientv3/internal/optxn", "clientv3/internal/settle", "internal/pause"},
	"clientv3/idempotent":               {"clientv3", "clientv3/concurrency", "clientv3/internal/grant", "clientv3/internal/lineage", "clientv3/internal/optxn", "clientv3/internal/reply", "clientv3/internal/semantics", "internal/channel", "internal/pause", "observe", "retry"},
	"clientv3/jobs":                     {"clientv3", "clientv3/internal/optxn", "clientv3/internal/settle", "clientv3/leaderelection", "clientv3/store", "internal/pause", "retry"},
	"clientv3/kubernetes":               {"clientv3"},
	"clientv3/leaderelection":           {"clientv3", "clientv3/concurrency", "clientv3/internal/grant", "clientv3/internal/optxn", "internal/pause", "observe", "observe/introspect", "retry"},
	"clientv3/leasing":                  {"clientv3", "clientv3/internal/lineage", "clientv3/internal/optxn", "clientv3/internal/reply", "clientv3/internal/semantics", "clientv3/concurrency", "internal/pause", "retry"},
	"clientv3/mirror":                   {"clientv3", "clientv3/internal/lineage"},
	"clientv3/namespace":                {"clientv3", "clientv3/internal/optxn", "internal/pause"},
	"clientv3/naming/endpoints":         {"clientv3", "clientv3/naming/internal/registry"},
	"clientv3/naming/internal/registry": {"clientv3", "health", "internal/pause", "retry"},
	"clientv3/naming/resolver":          {"balancer", "clientv3", "clientv3/naming/internal/registry", "internal/feed", "internal/lastgood"},
	"clientv3/ordering":                 {"clientv3", "clientv3/internal/lineage", "clientv3/internal/optxn", "internal/pause"},
	"clientv3/snapshot":                 {"clientv3", "internal/endpoint"},
	"clientv3/store":                    {"clientv3", "clientv3/concurrency", "clientv3/internal/optxn", "clientv3/internal/staleness", "internal/channel", "internal/pause", "retry"},
	"clientv3/yaml":                     {"clientv3"},
	"examples":                          {"", "clientv3", "clientv3/cache", "clientv3/clientconfig", "clientv3/concurrency", "clientv3/controller", "clientv3/idempotent", "clientv3/jobs", "clientv3/leaderelection", "clientv3/store", "keepalive", "resolver/etcd", "retry"},
	"resolver/static":                   {"balancer"},
	"resolver/dns":                      {"balancer", "internal/feed", "internal/lastgood", "internal/pause"},
	"resolver/etcd":                     {"balancer", "clientv3", "clientv3/concurrency", "clientv3/naming/endpoints", "clientv3/naming/resolver", "internal/pause"},
}

// upward are imports that the table of layers must not allow: what many packages share knows nothing of the
// client, and the client nothing of the resolvers.
var upward = []struct{ from, to string }{{"internal", "clientv3"}, {"clientv3", "resolver"}}

// dependencies lists every module that is compiled into a program which uses
// the library, with the reason for it. A new one is a decision: a
// user of the client downloads neither a server nor half of Kubernetes.
var dependencies = map[string]string{
	"github.com/coreos/go-semver":               "etcd's api: versions",
	"github.com/coreos/go-systemd/v22":          "etcd's client/pkg: the default logger can write to journald",
	"github.com/golang/protobuf":                "etcd's api: generated code",
	"github.com/google/btree":                   "clientv3/cache: sorted keys, copied on write; etcd's server stands on it too",
	"github.com/grpc-ecosystem/grpc-gateway/v2": "etcd's api: annotations of generated code",
	"go.etcd.io/etcd/api/v3":                    "the wire: requests, responses, server errors",
	"go.etcd.io/etcd/client/pkg/v3":             "TLS files, URLs and the default logger, as the official client has them",
	"go.uber.org/multierr":                      "zap",
	"go.uber.org/zap":                           "the logger in the API",
	"go.yaml.in/yaml/v2":                        "sigs.k8s.io/yaml",
	"golang.org/x/net":                          "grpc: HTTP/2; resolver/dns: DNS messages",
	"golang.org/x/sys":                          "grpc; balancer: how far the kernel has come with a connection",
	"golang.org/x/text":                         "grpc, through x/net",
	"google.golang.org/genproto/googleapis/api": "etcd's api: annotations of generated code",
	"google.golang.org/genproto/googleapis/rpc": "grpc: status",
	"google.golang.org/grpc":                    "the transport",
	"google.golang.org/protobuf":                "grpc",
	"sigs.k8s.io/yaml":                          "clientv3/yaml: configuration files as the official client reads them",
}

// TestImportsGoDown checks that every package imports only the layers that its own may.
func TestImportsGoDown(t *testing.T) {
	atRoot(t)
	var seen int
	for _, pkg := range goList(t, "off", "./...") {
		from := layer(pkg.ImportPath)
		require.Contains(t, layers, from, "%s is in no layer: add it to DESIGN.md and to the table here", pkg.ImportPath)
		for _, imported := range pkg.Imports {
			if imported != module && !strings.HasPrefix(imported, module+"/") {
				continue
			}
			to := layer(imported)
			seen++
			require.True(t, from == to || slices.Contains(layers[from], to),
				"%s imports %s: the layer %q may import only %q", pkg.ImportPath, imported, from, layers[from])
		}
	}
	require.NotZero(t, seen, "no import between packages of the module was found: the check looks at nothing")
}

// TestLayersAllowNoUpwardImport checks the table of layers.
func TestLayersAllowNoUpwardImport(t *testing.T) {
	for from, allowed := range layers {
		for _, to := range allowed {
			for _, ban := range upward {
				require.False(t, below(from, ban.from) && below(to, ban.to), "%q allows %q", from, to)
			}
		}
	}
}

// below reports whether a package is the one in the folder, or one below it.
func below(path, folder string) bool { return strings.HasPrefix(path+"/", folder+"/") }

// TestDependenciesGrowOnPurpose compares what is compiled into a user's program
// with the list above, in both directions.
func TestDependenciesGrowOnPurpose(t *testing.T) {
	atRoot(t)
	got := map[string]bool{}
	for _, pkg := range goList(t, "off", "-deps", "./...") {
		if pkg.Module != nil && pkg.Module.Path != module {
			got[pkg.Module.Path] = true
		}
	}
	require.Equal(t, slices.Sorted(maps.Keys(dependencies)), slices.Sorted(maps.Keys(got)))
}

type listed struct {
	Name, ImportPath string
	Imports          []string
	Module           *struct{ Path string }
}

// goList lists packages, in the workspace of the repository if workspace is empty, or without one if it is "off".
func goList(t *testing.T, workspace string, args ...string) []listed {
	t.Helper()
	cmd := exec.Command("go", append([]string{"list", "-json=Name,ImportPath,Imports,Module"}, args...)...)
	cmd.Env = append(os.Environ(), "GOWORK="+workspace)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	require.NoError(t, err)
	var pkgs []listed
	for dec := json.NewDecoder(strings.NewReader(string(out))); dec.More(); {
		var p listed
		require.NoError(t, dec.Decode(&p))
		pkgs = append(pkgs, p)
	}
	return pkgs
}

func layer(importPath string) string {
	path := strings.TrimPrefix(strings.TrimPrefix(importPath, module), "/")
	longest := "(none)"
	for name := range layers {
		if (path == name || (name != "" && strings.HasPrefix(path, name+"/"))) && (longest == "(none)" || len(name) > len(longest)) {
			longest = name
		}
	}
	return longest
}

// noExample lists the public packages without an Example, with the reason.
var noExample = map[string]string{
	"clientv3/naming": "it has no code",
}

// TestPublicPackages checks that each package that a program can import has an Example, and
// is listed in doc.go and docs/packages.md, which list no other.
func TestPublicPackages(t *testing.T) {
	atRoot(t)
	public := publicPackages(t)
	inDoc := mentioned(t, "doc.go", regexp.MustCompile(`(?m)^//   - ([a-z0-9/]+)[,:]`))
	inPage := mentioned(t, "docs/packages.md", regexp.MustCompile(`\]\(\.\./([a-z0-9/]+)\)`))
	for dir := range public {
		assert.True(t, inDoc[dir], "doc.go does not list %s", dir)
		assert.True(t, inPage[dir], "docs/packages.md does not list %s", dir)
		assert.NotEqual(t, noExample[dir] != "", strings.Contains(declarations(t, dir), "\nfunc Example"), "%s has no Example, or noExample lists it", dir)
	}
	for dir := range inDoc {
		assert.DirExists(t, dir, "doc.go lists it")
	}
}

// publicPackages returns the folders of all packages that a program can import, without the
// root and what is evidence.
func publicPackages(t *testing.T) map[string]bool {
	t.Helper()
	all := make(map[string]bool)
	for _, pkg := range goList(t, "",
		"./...", "./observe/prometheus/...", "./observe/otel/...", "./resolver/kubernetes/...", "./adapters/kratos/...", "./adapters/gozero/...") {
		dir := strings.TrimPrefix(strings.TrimPrefix(pkg.ImportPath, module), "/")
		if pkg.Name != "main" && dir != "" && !strings.Contains("/"+dir+"/", "/internal/") {
			all[dir] = true
		}
	}
	require.NotEmpty(t, all)
	return all
}

func mentioned(t *testing.T, file string, pattern *regexp.Regexp) map[string]bool {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	all := make(map[string]bool)
	for _, m := range pattern.FindAllStringSubmatch(string(text), -1) {
		all[m[1]] = true
	}
	return all
}
