package compat_test

import (
	"io/fs"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/compat/internal/source"
)

const (
	rootModule  = "github.com/quorate/quorate"
	rootVersion = "v0.1.0"
	shimModule  = rootModule + "/compat/clientv3/v3"
	shimVersion = "v3.7.3-quorate.0.1.0"
)

// TestPublished does what README.md says of a release, in a repository of its own, and builds a module that has one
// replace line, as a user does: the go command fetches both modules from their tags. Only the address of the repository
// is redirected, and what others publish comes from the module cache.
func TestPublished(t *testing.T) {
	repository := release(t, tree(t).Root)
	consumer := t.TempDir()
	write(t, consumer, "go.mod", "module example.com/consumer\n\ngo 1.26.0\n\n"+
		"require go.etcd.io/etcd/client/v3 v3.6.0\n\n"+
		"replace go.etcd.io/etcd/client/v3 => "+shimModule+" "+shimVersion+"\n")
	write(t, consumer, "main.go", `package main

import (
	"fmt"
	"reflect"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
)

func main() {
	clientv3.LeaseResponseChSize = 1
	fmt.Println(reflect.TypeFor[clientv3.Client]().PkgPath(), reflect.TypeFor[concurrency.Session]().PkgPath())
}
`)
	environ := append(source.Environ(), download(t, repository)...)
	out := runIn(t, consumer, environ, "go", "run", ".")
	require.Equal(t, "github.com/quorate/quorate/clientv3 github.com/quorate/quorate/clientv3/concurrency", lastLine(out))
	out = runIn(t, consumer, environ, "go", "list", "-m", "-f", "{{.Path}} {{with .Replace}}{{.}}{{else}}{{.Version}}{{end}}", source.Official, rootModule)
	require.Equal(t, source.Official+" "+shimModule+" "+shimVersion+"\n"+rootModule+" "+rootVersion+"\n", out)
}

// release makes a git repository of this tree and tags both modules in one commit.
func release(t *testing.T, root string) (repository string) {
	t.Helper()
	repository = t.TempDir()
	copyModule(t, root, repository)
	copyModule(t, filepath.Join(root, "compat", "clientv3"), filepath.Join(repository, "compat", "clientv3"))
	runIn(t, filepath.Join(repository, "compat", "clientv3"), source.Environ(), "go", "mod", "edit", "-require="+rootModule+"@"+rootVersion)
	for _, args := range [][]string{
		{"init", "--quiet"},
		{"add", "."},
		{"-c", "user.name=release", "-c", "user.email=release@example.com", "-c", "commit.gpgsign=false", "commit", "--quiet", "-m", "release"},
		{"tag", rootVersion},
		{"tag", "compat/clientv3/" + shimVersion},
	} {
		runIn(t, repository, ownGit(), "git", args...)
	}
	return repository
}

// ownGit returns the environment without what a git hook that runs the tests would say of its repository.
func ownGit() []string {
	return slices.DeleteFunc(os.Environ(), func(variable string) bool { return strings.HasPrefix(variable, "GIT_") })
}

// TestCopyIsNoCheckout copies a module from a worktree of git, in which a file .git leads to the repository: what is
// committed and tagged in the copy must not reach it.
func TestCopyIsNoCheckout(t *testing.T) {
	from, to := t.TempDir(), t.TempDir()
	for _, dir := range []string{"kept", "below", ".ci"} {
		require.NoError(t, os.Mkdir(filepath.Join(from, dir), 0o755))
	}
	for _, name := range []string{".git", ".ci/run", "go.mod", "kept/kept.go", "below/go.mod"} {
		write(t, from, name, "")
	}
	copyModule(t, from, to)
	var copied []string
	require.NoError(t, fs.WalkDir(os.DirFS(to), ".", func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			copied = append(copied, path)
		}
		return err
	}))
	require.Equal(t, []string{"go.mod", "kept/kept.go"}, copied)
}

// copyModule copies a module without those that lie below it, and without hidden files.
func copyModule(t *testing.T, from, to string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(from, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		below, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		hidden := below != "." && strings.HasPrefix(entry.Name(), ".")
		if entry.IsDir() {
			_, err := os.Stat(filepath.Join(path, "go.mod"))
			if hidden || below != "." && err == nil {
				return filepath.SkipDir
			}
			return os.MkdirAll(filepath.Join(to, below), 0o755)
		}
		if hidden || !entry.Type().IsRegular() {
			return nil
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, below), content, 0o644)
	}))
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
		"GOPRIVATE=" + rootModule,
		"GOSUMDB=off",
		// -trimpath makes the compiled packages independent of the temporary directory, so that they are cached.
		"GOFLAGS=-mod=mod -modcacherw -trimpath -buildvcs=false",
		"GIT_CONFIG_COUNT=1",
		"GIT_CONFIG_KEY_0=url." + fileURL(repository) + ".insteadOf",
		"GIT_CONFIG_VALUE_0=https://" + rootModule,
	}
}

func fileURL(path string) string {
	return (&url.URL{Scheme: "file", Path: filepath.ToSlash(path)}).String()
}

func write(t *testing.T, dir, name, content string) {
	t.Helper()
	require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644))
}

// runIn runs a command in a directory and returns its standard output.
func runIn(t *testing.T, dir string, environ []string, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir, cmd.Env = dir, environ
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.Output()
	require.NoError(t, err, "%s %s\n%s%s", name, strings.Join(args, " "), out, errs.String())
	return string(out)
}

func lastLine(out string) string {
	lines := strings.Split(strings.TrimSpace(out), "\n")
	return lines[len(lines)-1]
}
