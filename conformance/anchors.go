//go:build anchors

// The suite is run by its import path and never imported by the program. This file keeps the modules that its tests need
// in go.mod, and their checksums in go.sum; its build tag is never set.

package main

import (
	_ "github.com/kitex-contrib/registry-etcd"
	_ "github.com/zeromicro/go-zero/core/discov"
	_ "go.etcd.io/etcd/tests/v3/framework/integration"
	_ "go.etcd.io/etcd/tests/v3/integration/clientv3"
	_ "go.etcd.io/etcd/tests/v3/robustness/scenarios"
	_ "go.etcd.io/etcd/tests/v3/robustness/validate"
)
