package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/quorate/quorate/internal/fatal"
)

const (
	serverModule = "go.etcd.io/etcd/server/v3"
	gofail       = "go.etcd.io/gofail@v0.2.0"
)

// buildServers builds the servers that the tests of the suite start, and the etcdctl with which they find the leader, in the
// folder where the tests look for both.
func (b *build) buildServers(ctx context.Context) {
	bin := filepath.Join(b.dir, "bin")
	for name, version := range b.suite.servers {
		b.buildServer(ctx, version, filepath.Join(bin, name))
	}
	if len(b.suite.servers) > 0 {
		execute(b.goCommand(ctx, slices.Concat([]string{"build"}, b.flags, []string{"-o", filepath.Join(bin, "etcdctl"), "./etcdctl"})...))
	}
}

// buildServer builds a release of etcd with its fail points, in a copy of its module.
func (b *build) buildServer(ctx context.Context, version, executable string) {
	out, err := b.goCommand(ctx, "mod", "download", "-json", serverModule+"@"+version).Output()
	fatal.If(err, "go mod download "+serverModule+"@"+version)
	var module struct{ Dir string }
	fatal.If(json.Unmarshal(out, &module))
	source := filepath.Join(b.dir, "server", version)
	fatal.If(os.CopyFS(source, os.DirFS(module.Dir)))
	beside := []string{"api", "client/pkg", "client", "pkg"} // in the repository of etcd
	edit := append(make([]string, 0, 2+len(beside)), "mod", "edit")
	for _, part := range beside {
		edit = append(edit, "-dropreplace=go.etcd.io/etcd/"+part+"/v3")
	}
	for _, args := range [][]string{
		edit,
		slices.Concat([]string{"run", gofail, "enable"}, fatal.OK(foldersWithFailPoints(source))),
		{"get", gofail},
		{"build", "-mod=mod", "-o", executable, "."},
	} {
		cmd := b.goCommand(ctx, args...)
		cmd.Dir = source
		execute(cmd)
	}
}

// foldersWithFailPoints returns the folders of packages that have fail points.
func foldersWithFailPoints(root string) (folders []string, err error) {
	err = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".go" {
			return err
		}
		text, err := os.ReadFile(path)
		if dir := filepath.Dir(path); bytes.Contains(text, []byte("// gofail:")) && !slices.Contains(folders, dir) {
			folders = append(folders, dir)
		}
		return err
	})
	return folders, err
}
