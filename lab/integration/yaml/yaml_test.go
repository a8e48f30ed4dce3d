package yaml_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"go.uber.org/zap"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/yaml"
	"github.com/quorate/quorate/lab"
	"github.com/quorate/quorate/lab/internal/labtest"
)

func TestMain(m *testing.M) {
	lab.Main()
	goleak.VerifyTestMain(m)
}

// refused is how long a call is made that cannot succeed.
const refused = 2 * time.Second

// TestServer reads what a member that demands certificates accepts, and what it does not.
func TestServer(t *testing.T) {
	cluster := labtest.Start(t, lab.Config{Members: 1, TLS: true, ClientCertAuth: true})
	files := cluster.TLSFiles()
	pair := fmt.Sprintf("cert-file: %s\nkey-file: %s\n", files.ClientCert, files.ClientKey)
	authority := fmt.Sprintf("trusted-ca-file: %s\n", files.CA)
	for name, tt := range map[string]struct {
		text    string
		accepts bool
	}{
		"all":                    {pair + authority, true},
		"old name":               {pair + "ca-file: " + files.CA, true},
		"authority not checked":  {pair + "insecure-skip-tls-verify: true", true},
		"authority not trusted":  {pair, false},
		"no certificate":         {authority, false},
		"no TLS on an https URL": {"insecure-transport: true", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "etcd.yaml")
			text := fmt.Sprintf("endpoints: [%s]\n%s", cluster.Endpoints()[0], tt.text)
			require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
			cfg, err := yaml.NewConfig(path)
			require.NoError(t, err)
			cfg.Logger = zap.NewNop()
			client, err := clientv3.New(*cfg)
			require.NoError(t, err)
			defer client.Close()
			limit := refused
			if tt.accepts {
				limit = labtest.Patience
			}
			ctx := labtest.Within(t, limit)
			_, err = client.Put(ctx, "k", "v")
			if tt.accepts {
				require.NoError(t, err)
			} else {
				require.Error(t, err)
			}
		})
	}
}
