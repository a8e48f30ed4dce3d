//go:build experiment

package compat_test

import (
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/compat/internal/source"
)

// TestPublished releases this tree in a repository of its own, and does with the release what a user does, beginning with an
// empty module cache: the go command fetches the modules by their tags. Only the address of the repository is redirected, and
// what others publish comes from the module cache that is in use.
func TestPublished(t *testing.T) {
	repository := release(t)
	environ := append(source.Environ(), download(t, repository)...)

	t.Run("install", func(t *testing.T) {
		bin := t.TempDir()
		runIn(t, bin, append(environ, "GOBIN="+bin), "go", "install", project+"/cmd/...@"+version)
		for _, program := range []string{"quorate", "quorate-lab"} {
			require.Contains(t, runIn(t, bin, environ, filepath.Join(bin, program), "version"), program+" "+version+"\n")
		}
	})
	t.Run("client with Prometheus and OpenTelemetry", func(t *testing.T) {
		dir := newModule(t, environ, "observed.go.txt", "clientv3", "observe/prometheus", "observe/otel")
		require.Equal(t, "observed\n", runIn(t, dir, environ, "go", "run", "."))
	})
	t.Run("resolver for Kubernetes", func(t *testing.T) {
		dir := newModule(t, environ, "pods.go.txt", "resolver/kubernetes")
		require.Equal(t, "kubernetes:///users.shop:grpc\n", runIn(t, dir, environ, "go", "run", "."))
	})
	t.Run("etcd in a test", func(t *testing.T) {
		dir := newModule(t, environ, "cluster_test.go.txt", "etcdtest", "lab/etcdtest")
		require.Contains(t, runIn(t, dir, environ, "go", "test", "-vet=off", "-count=1", "-v", "."), "--- PASS: TestPut")
	})
	t.Run("shim by a replace line", func(t *testing.T) {
		dir := newModule(t, environ, "shim.go.txt")
		runIn(t, dir, environ, "go", "mod", "edit", "-require="+source.Official+"@v3.6.0")
		module, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		require.NoError(t, err)
		write(t, dir, "go.mod", string(module)+replaceLine(t, repository)+"\n")
		require.Equal(t, project+"/clientv3 "+project+"/clientv3/concurrency\n", runIn(t, dir, environ, "go", "run", "."))
		out := runIn(t, dir, environ, "go", "list", "-m", "-f", "{{.Path}} {{with .Replace}}{{.}}{{else}}{{.Version}}{{end}}", source.Official, project)
		require.Equal(t, source.Official+" "+shimModule+" "+shimVersion+"\n"+project+" "+version+"\n", out)
	})
}

// newModule makes a module of one of the programs in testdata/published, which gets packages of the release.
func newModule(t *testing.T, environ []string, program string, packages ...string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	content, err := os.ReadFile(filepath.Join("testdata", "published", program))
	require.NoError(t, err)
	write(t, dir, strings.TrimSuffix(program, ".txt"), string(content))
	write(t, dir, "go.mod", "module example.com/consumer\n\ngo 1.26.0\n")
	if len(packages) > 0 {
		args := []string{"get"}
		for _, pkg := range packages {
			args = append(args, project+"/"+pkg+"@"+version)
		}
		runIn(t, dir, environ, "go", args...)
	}
	return dir
}

// download is the environment of a go command with a module cache of its own, so that nothing of this test remains. It
// fetches the project's modules from the repository, others from the cache that is in use, and then from where that
// was filled.
func download(t *testing.T, repository string) []string {
	t.Helper()
	settings := strings.Split(strings.TrimSpace(goCommand(t, "env", "GOMODCACHE", "GOPROXY")), "\n")
	cache := fileURL(filepath.Join(settings[0], "cache", "download"))
	return []string{
		"GOMODCACHE=" + t.TempDir(),
		"GOPROXY=" + cache + "," + settings[1],
		"GOPRIVATE=" + project,
		"GOSUMDB=off",
		// -trimpath makes the compiled packages independent of the temporary directory, so that they are cached.
		"GOFLAGS=-mod=mod -modcacherw -trimpath -buildvcs=false",
		"GIT_CONFIG_COUNT=1",
		"GIT_CONFIG_KEY_0=url." + fileURL(repository) + ".insteadOf",
		"GIT_CONFIG_VALUE_0=https://" + project,
	}
}

func fileURL(path string) string {
	return (&url.URL{Scheme: "file", Path: filepath.ToSlash(path)}).String()
}
