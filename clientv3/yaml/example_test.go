package yaml_test

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/quorate/quorate/clientv3/yaml"
)

func ExampleNewConfig() {
	dir, err := os.MkdirTemp("", "config-")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "etcd.yaml")
	const text = `
endpoints: [https://10.0.0.1:2379, https://10.0.0.2:2379, https://10.0.0.3:2379]
dial-timeout: 5000000000 # nanoseconds
username: backup
password: "0451"
insecure-skip-tls-verify: false
`
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		panic(err)
	}
	cfg, err := yaml.NewConfig(path)
	if err != nil {
		panic(err)
	}
	// A program passes *cfg to clientv3.New.
	fmt.Println(len(cfg.Endpoints), "endpoints, user", cfg.Username, "timeout", cfg.DialTimeout, "TLS", cfg.TLS != nil)
	// Output: 3 endpoints, user backup timeout 5s TLS true
}
