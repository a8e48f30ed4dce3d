package clientconfig_test

import (
	"flag"
	"fmt"

	"github.com/quorate/quorate/clientv3/clientconfig"
)

// Flags outrank the environment, which outranks the program's own URL.
func ExampleLoad() {
	set := flag.NewFlagSet("shop", flag.ContinueOnError)
	flags := clientconfig.Flags(set)
	if err := set.Parse([]string{"--dial-timeout", "3s"}); err != nil {
		panic(err)
	}
	url, err := clientconfig.URL("etcd://shop:secret@10.0.0.1,10.0.0.2,10.0.0.3:12379?dial-timeout=5s&keepalive-time=30s")
	if err != nil {
		panic(err)
	}
	cfg, err := clientconfig.Load(flags, clientconfig.Env(), url)
	if err != nil {
		panic(err)
	}
	fmt.Println(cfg.Endpoints, cfg.Username, cfg.DialTimeout, cfg.DialKeepAliveTime)
	// Output: [10.0.0.1:2379 10.0.0.2:2379 10.0.0.3:12379] shop 3s 30s
}

// The environment alone, as etcdctl has it.
func ExampleFromEnv() {
	cfg, err := clientconfig.FromEnv()
	if err != nil {
		panic(err)
	}
	fmt.Println(cfg.Endpoints)
	// Output: [127.0.0.1:2379]
}
