package main

// robustnessSuite is etcd's own robustness tests: traffic of many clients while members fail, and a history that must be
// linearizable, with watches that keep their promises. The tests choose most faults at random.
var robustnessSuite = suite{
	name:     "robustness",
	title:    "etcd's robustness tests v3.7.3",
	released: map[string]string{etcdTests: "v3.7.3"},
	folder:   "robustness",
	fixtures: []string{"fixtures"},
	servers:  map[string]string{"etcd": "v3.7.3", "etcd-last-release": "v3.6.16"},
	packages: []suitePackage{{name: etcdTests + "/robustness", tests: 2}},
}
