package quorate_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// noExample lists the public packages without an Example, with the reason.
var noExample = map[string]string{
	"clientv3/naming": "it has no code",
}

// TestPublicPackages checks that each package that a program can import has an Example, and
// is listed in doc.go and docs/packages.md, which list no other.
func TestPublicPackages(t *testing.T) {
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
	for _, pkg := range goList(t, os.Getenv("GOWORK"),
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
