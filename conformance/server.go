package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

const (
	// storage are the tests of Kubernetes' storage, which start their servers by the package testServer of its module.
	storage          = "k8s.io/apiserver/pkg/storage/etcd3"
	kubernetesServer = "k8s.io/apiserver"
	testServer       = "pkg/storage/etcd3/testserver/test_server.go"
)

// useServer makes the tests of storage run on the executable at path. They are compiled in a copy of their module, with
// dependents/testserver in the place of the package that starts their server.
func (b *build) useServer(ctx context.Context, path string) error {
	path, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	if _, err := os.Stat(path); err != nil {
		return fmt.Errorf("--server: %w", err)
	}
	modules, err := b.modules(ctx, kubernetesServer)
	if err != nil {
		return err
	}
	ours, err := os.ReadFile(filepath.Join("dependents", "testserver", "testserver.go"))
	if err != nil {
		return err
	}
	copied := filepath.Join(b.dir, "apiserver")
	if err := os.CopyFS(copied, os.DirFS(modules[kubernetesServer].Dir)); err != nil {
		return err
	}
	file := filepath.Join(copied, filepath.FromSlash(testServer))
	if err := errors.Join(os.Remove(file), os.WriteFile(file, ours, 0o600)); err != nil {
		return err
	}
	if err := b.editModule(ctx, "-replace="+kubernetesServer+"="+copied); err != nil {
		return err
	}
	return os.Setenv("QUORATE_SERVER", path)
}
