package compat_test

// The tests look at these packages through the go command. Importing them makes go test run again, rather than repeat a
// cached result, when one of them has changed.
import (
	_ "github.com/quorate/quorate/clientv3"
	_ "github.com/quorate/quorate/clientv3/clientv3util"
	_ "github.com/quorate/quorate/clientv3/concurrency"
	_ "github.com/quorate/quorate/clientv3/credentials"
	_ "github.com/quorate/quorate/clientv3/experimental/recipes"
	_ "github.com/quorate/quorate/clientv3/kubernetes"
	_ "github.com/quorate/quorate/clientv3/leasing"
	_ "github.com/quorate/quorate/clientv3/mirror"
	_ "github.com/quorate/quorate/clientv3/mock/mockserver"
	_ "github.com/quorate/quorate/clientv3/namespace"
	_ "github.com/quorate/quorate/clientv3/naming/endpoints"
	_ "github.com/quorate/quorate/clientv3/naming/resolver"
	_ "github.com/quorate/quorate/clientv3/ordering"
	_ "github.com/quorate/quorate/clientv3/snapshot"
	_ "github.com/quorate/quorate/clientv3/yaml"
)
