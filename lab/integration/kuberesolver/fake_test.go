package kuberesolver_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"

	"github.com/quorate/quorate/resolver/kubernetes/fakeapiserver"
)

// fake is the API server in this process.
type fake struct {
	*fakeapiserver.Server
	token string // path of the client's token
}

func startFake(t *testing.T) *fake {
	t.Helper()
	s, err := fakeapiserver.Start()
	require.NoError(t, err)
	t.Cleanup(s.Close)
	return &fake{Server: s, token: filepath.Join(t.TempDir(), "token")}
}

func (f *fake) admit(t *testing.T, _ string) *rest.Config { return f.allow(t, roleManifest) }

func (f *fake) admitEverywhere(t *testing.T) *rest.Config { return f.allow(t, clusterManifest) }

func (f *fake) allow(t *testing.T, manifest string) *rest.Config {
	require.NoError(t, os.WriteFile(f.token, []byte("first"), 0o600))
	f.SetTokens("first")
	f.Deny()
	f.Allow(allowedVerbs(t, manifest)...)
	config := f.RESTConfig()
	config.BearerToken, config.BearerTokenFile = "", f.token
	return config
}

func (f *fake) put(_ context.Context, slice *discoveryv1.EndpointSlice) error {
	_, err := f.Update(slice)
	if apierrors.IsNotFound(err) {
		_, err = f.Create(slice)
	}
	return err
}

func (f *fake) remove(_ context.Context, namespace, name string) error {
	return f.Delete(namespace, name)
}

func (f *fake) kill() error {
	f.Stop()
	return nil
}

func (f *fake) restart(context.Context) error { return f.Restart() }

func (f *fake) stop() error {
	f.Hang()
	return nil
}

func (f *fake) resume() error {
	f.Resume()
	return nil
}

func (f *fake) hangUp() { f.BreakConnections() }

func (f *fake) shortenWatches(context.Context) error {
	f.SetWatchDuration(300 * time.Millisecond)
	f.EndWatches()
	return nil
}

func (f *fake) forget(context.Context) error {
	f.Compact()
	return nil
}

func (f *fake) revoke(*testing.T, string) { f.Deny() }

func (f *fake) grant(t *testing.T, _ string) { f.Allow(allowedVerbs(t, roleManifest)...) }

func (f *fake) rotate(t *testing.T, _ string) func() {
	f.SetTokens("second")
	return func() { replaceFile(t, f.token, "second") }
}

// replaceFile gives a file a new content, as a kubelet does: by one rename.
func replaceFile(t *testing.T, path, content string) {
	t.Helper()
	require.NoError(t, os.WriteFile(path+".new", []byte(content), 0o600))
	require.NoError(t, os.Rename(path+".new", path))
}
