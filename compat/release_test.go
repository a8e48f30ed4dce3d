package compat_test

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const (
	project     = "github.com/quorate/quorate"
	version     = "v0.99.0"
	shimModule  = project + "/compat/clientv3/v3"
	shimVersion = "v3.7.3-quorate.0.99.0"
)

// release makes a git repository of this tree, and a release in it.
func release(t *testing.T) (repository string) {
	t.Helper()
	repository = t.TempDir()
	copyTree(t, tree(t).Root, repository)
	write(t, repository, "CHANGELOG.md", "# Changelog\n\n## Unreleased\n- New.\n\n## 0.1.0 - 2026-01-01\n- Old.\n")
	environ := gitEnviron(t)
	runIn(t, repository, environ, "git", "init", "--quiet")
	runIn(t, repository, environ, "git", "add", ".")
	runIn(t, repository, environ, "git", "commit", "--quiet", "-m", "before")
	runIn(t, repository, environ, "./release.sh", version)
	return repository
}

// TestRelease checks what the script changes, and what it refuses.
func TestRelease(t *testing.T) {
	repository, environ := release(t), gitEnviron(t)
	script := func(args ...string) string { return runIn(t, repository, environ, "./release.sh", args...) }
	refused := func(args ...string) string {
		cmd := exec.CommandContext(t.Context(), "./release.sh", args...)
		cmd.Dir, cmd.Env = repository, environ
		out, err := cmd.CombinedOutput()
		require.Error(t, err)
		return string(out)
	}

	tags := strings.Fields(script("tags", version))
	assert.ElementsMatch(t, tags, strings.Fields(runIn(t, repository, environ, "git", "tag", "--points-at", "HEAD")))
	assert.Contains(t, tags, "compat/clientv3/"+shimVersion)
	assert.Equal(t, "- New.", strings.TrimSpace(script("notes", version)))
	assert.Equal(t, "- Old.", strings.TrimSpace(script("notes", "v0.1.0")))
	assert.Empty(t, runIn(t, repository, environ, "git", "status", "--porcelain"))
	for line := range strings.Lines(runIn(t, repository, environ, "git", "grep", "-hE", "^[[:space:]]+"+project+"[^ ]* v", "--", "*.mod", "go.work")) {
		assert.Contains(t, line, " "+version)
	}
	named := runIn(t, repository, environ, "git", "grep", "-hoE", `(-quorate\.|Quorate )[0-9]+\.[0-9]+\.[0-9]+`, "--", "README.md", "docs/*.md", "compat/README.md")
	require.NotEmpty(t, named)
	for line := range strings.Lines(named) {
		assert.Regexp(t, `^(-quorate\.|Quorate )0\.99\.0\n$`, line, "a page names another version")
	}
	assert.Equal(t, "replace go.etcd.io/etcd/client/v3 => "+shimModule+" "+shimVersion, replaceLine(t, repository))
	for _, published := range []string{"go.mod", "cmd/go.mod", "lab/go.mod", "observe/otel/go.mod", "observe/prometheus/go.mod", "resolver/kubernetes/go.mod", "adapters/kratos/go.mod", "adapters/gozero/go.mod"} {
		content, err := os.ReadFile(filepath.Join(repository, published))
		require.NoError(t, err)
		assert.NotContains(t, string(content), "=>", "%s replaces a module: it cannot be installed", published)
	}

	assert.Contains(t, refused("v1.0"), "v1.0 is no version")
	assert.Contains(t, refused("v1.0.0"), "says nothing below Unreleased")
	write(t, repository, "new.go", "package quorate\n")
	assert.Contains(t, refused("v1.0.0"), "the checkout has changes")
}

// replaceLine returns what docs/migrating.md tells users to write in their go.mod.
func replaceLine(t *testing.T, repository string) string {
	t.Helper()
	page, err := os.ReadFile(filepath.Join(repository, "docs", "migrating.md"))
	require.NoError(t, err)
	lines := regexp.MustCompile(`(?m)^replace .*$`).FindAllString(string(page), -1)
	require.Len(t, lines, 1)
	return lines[0]
}

// gitEnviron is the environment of git in a repository of its own: no user's settings, and nothing of a git hook that may run
// the tests.
func gitEnviron(t *testing.T) []string {
	t.Helper()
	var environ []string
	for _, variable := range os.Environ() {
		if !strings.HasPrefix(variable, "GIT_") {
			environ = append(environ, variable)
		}
	}
	return append(environ, "GIT_CONFIG_GLOBAL="+os.DevNull, "GIT_CONFIG_SYSTEM="+os.DevNull,
		"GIT_AUTHOR_NAME=release", "GIT_AUTHOR_EMAIL=release@example.com", "GIT_COMMITTER_NAME=release", "GIT_COMMITTER_EMAIL=release@example.com")
}

// TestCopyIsNoCheckout copies a worktree of git, in which a file .git leads to the repository: what is committed and tagged in
// the copy must not reach it.
func TestCopyIsNoCheckout(t *testing.T) {
	from, to := t.TempDir(), t.TempDir()
	for _, dir := range []string{"kept", "bin", ".ci"} {
		require.NoError(t, os.Mkdir(filepath.Join(from, dir), 0o755))
	}
	for _, name := range []string{".git", ".ci/run", "go.mod", "kept/kept.go", "bin/program"} {
		write(t, from, name, "")
	}
	copyTree(t, from, to)
	var copied []string
	require.NoError(t, fs.WalkDir(os.DirFS(to), ".", func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			copied = append(copied, path)
		}
		return err
	}))
	require.Equal(t, []string{"go.mod", "kept/kept.go"}, copied)
}

// copyTree copies files, without what is hidden or built.
func copyTree(t *testing.T, from, to string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(from, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		below, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		left := below != "." && strings.HasPrefix(entry.Name(), ".")
		if entry.IsDir() {
			if left || entry.Name() == "bin" {
				return filepath.SkipDir
			}
			return os.MkdirAll(filepath.Join(to, below), 0o755)
		}
		if left || !entry.Type().IsRegular() {
			return nil
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, below), content, info.Mode().Perm())
	}))
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
