# Every target is one line of ordinary Go commands; CI runs the same ones.
.PHONY: build test test-kubernetes quorate-lab experiments-short published stress versions versions-short tidy tidy-check release-check snapshot binaries lint generate site lab compare soak soak-locks soak-linear soak-resolvers \
	kube-apiserver kube-test kube-test-short keepalive-test conformance dependents robustness etcdctl shim-tests shim-tests-short \
	servers servers-build servers-short kube-servers kube-faults kube-apiserver-over-shim bench bench-watches bench-fleet bench-pools bench-toolkit bench-calls bench-minimal bench-batch bench-once bench-routing bench-observed \
	fuzz-endpoint fuzz-dns fuzz-dns-answers fuzz-errors fuzz-config fuzz-watch fuzz-watch-hostile fuzz-watch-catchup fuzz-lease fuzz-settings fuzz-target

GORELEASER := github.com/goreleaser/goreleaser/v2@v2.16.0
HUGO := github.com/gohugoio/hugo@v0.165.0
GOLANGCI_LINT := github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0

KUBE_APISERVER := $(CURDIR)/lab/kube/apiserver/bin/kube-apiserver

build: ## compile everything
	go build work

# Members of clusters are this program, which is built without the race detector.
test experiments-short stress: export QUORATE_LAB = $(CURDIR)/.cache/quorate-lab
# Examples that have not changed are not linked again.
test stress: export QUORATE_EXAMPLES = $(CURDIR)/.cache/examples
# What is built with the race detector waits a second before it exits, unless told not to. Tests leave no goroutines that could race then.
test stress: export GORACE = atexit_sleep_ms=0

# What reads source, evaluates rules or counts memory runs without the race detector, and so do tests whose names begin with TestSimulat:
# their thousands of calls or states take seven times as long with it. Some folders below lab/bench have benchmarks and experiments only.
UNRACED = ./compat/... ./internal/repository ./lab/monitoring ./clientv3/internal/cost
SIMULATIONS = $(sort $(dir $(shell grep -rl --include='*_test.go' '^func TestSimulat' .)))
RACED = $(filter-out $(shell go list $(UNRACED)),$(shell go list work | grep -Ev '/lab/bench(/(calls|pools|toolkit))?$$'))

test: quorate-lab ## the whole test suite: real etcd servers, race detector; packages wait, so there are more at a time than cores
	go test -race -vet=off -tags noserver -timeout 20m -p 6 -skip '^TestSimulat' $(RACED)
	go test -vet=off -timeout 20m $(UNRACED)
	go test -vet=off -tags noserver -timeout 20m -run '^TestSimulat' $(SIMULATIONS)

test-kubernetes: ## quorate resolve, built with client-go
	go test -race -tags kubernetes ./cmd/quorate -run 'Kubernetes|Hints'

quorate-lab:
	go build -o .cache/quorate-lab ./cmd/quorate-lab

# An experiment is a test with real clusters and faults, or with figures, for as long as that takes.
EXPERIMENT_FILES = $(shell grep -rl --include='*_test.go' '^//go:build experiment$$' lab)
EXPERIMENTS = $(addprefix ./,$(sort $(dir $(EXPERIMENT_FILES))))
EXPERIMENT_TESTS = $(shell grep -ho '^func Test[A-Za-z0-9]*' $(EXPERIMENT_FILES) | cut -c6- | paste -sd'|')

experiments-short: quorate-lab ## faults, soaks and benchmarks on real clusters, each for seconds
	go test -vet=off -tags experiment -count=1 -timeout 20m -p 4 -run '^($(EXPERIMENT_TESTS))$$' $(EXPERIMENTS)

published: ## a program over the shim, and all that a user gets of a release, of this checkout; four minutes when nothing is cached
	go test -tags experiment -count=1 -timeout 30m -run '^(TestConsumer|TestPublished)$$' ./compat

N ?= 20
PKG ?= work
stress: quorate-lab ## the test suite, or PKG=./balancer/..., N times beside 16 busy loops
	.ci/stress $(N) $(PKG)

versions: ## the library's tests with the oldest and with the newest modules that it works with; `make test` has those between
	GOWORK=off go test ./...
	mkdir -p .cache && cp go.mod .cache/newest.mod && cp go.sum .cache/newest.sum
	GOWORK=off go get -modfile=.cache/newest.mod -u ./...
	GOWORK=off go test -modfile=.cache/newest.mod ./...

versions-short: ## what CI runs of it: what is closest to gRPC, with the oldest
	GOWORK=off go test ./retry/... ./balancer/... ./internal/... ./clientv3

tidy: ## go mod tidy in every module
	./release.sh tidy

tidy-check: ## is every module tidy?
	./release.sh tidy -diff

release-check: ## the configuration of binaries and images, by goreleaser; its first build takes a few minutes
	go run $(GORELEASER) check

snapshot: ## the binaries of a release below dist/, of this checkout: for all systems, or with ONLY=--single-target for this one
	go run $(GORELEASER) build --snapshot --clean $(ONLY)

binaries: ## of the tagged VERSION, with checksums, SBOMs and an image, published; needs syft, docker and a token of the forge
	mkdir -p .cache && ./release.sh notes $(VERSION) > .cache/notes.md
	GORELEASER_CURRENT_TAG=$(VERSION) go run $(GORELEASER) release --clean --release-notes .cache/notes.md

lint: ## golangci-lint at its pinned version, over all modules
	go run $(GOLANGCI_LINT) run ./... ./lab/... ./cmd/... ./compat/... ./observe/prometheus/... ./observe/otel/... ./resolver/kubernetes/... ./adapters/kratos/... ./adapters/gozero/...
	cd conformance && GOWORK=off go run $(GOLANGCI_LINT) run ./...

generate: ## renew generated pages
	go generate work

site: ## the pages as a site below .cache/site, to be read without a network; hugo takes a few minutes to build once
	CGO_ENABLED=0 go run $(HUGO) --config docs/site/hugo.toml --destination .cache/site --cleanDestinationDir --noBuildLock --panicOnWarning
	QUORATE_SITE=$(CURDIR)/.cache/site go test -count=1 ./internal/repository -run TestSiteNeedsNoNetwork

lab: ## faults on a real cluster, used through Quorate; a minute and a half
	go run ./cmd/quorate-lab faults

compare: ## the official client and Quorate under the same faults; seven minutes
	go run ./cmd/quorate-lab faults --compare

soak: ## watches under random faults for ten minutes, every delivery checked
	go run ./cmd/quorate-lab soak --duration 10m

soak-locks: ## locks and elections under random faults for five minutes, every success and guarded write checked
	go run ./cmd/quorate-lab soak locks --duration 5m

soak-linear: ## reads, writes and transactions under random faults for ten minutes, checked to be linearizable
	go run ./cmd/quorate-lab soak linear --duration 10m

soak-resolvers: ## the gRPC resolvers while their sources fail, for ten minutes: every list that a channel is told is checked
	go run ./cmd/quorate-lab soak resolvers --duration 10m

conformance: ## etcd's own suite of client tests over Quorate, all nine packages; five minutes
	cd conformance && GOWORK=off go run .

dependents: ## the etcd tests of CoreDNS, Trillian, go-zero, Kitex's registry, k8s.io/apiserver and Cilium over Quorate; four minutes
	cd conformance && GOWORK=off go run . --suite dependents && GOWORK=off go run . --suite cilium

robustness: ## etcd's own robustness tests over Quorate, on servers with fail points, and their validator over this project's faults; eight minutes of idle processors
	cd conformance && GOWORK=off go run . --suite robustness && GOWORK=off go test -tags experiment -count=1 -v ./referee -soak 1m

etcdctl: ## build etcd's etcdctl over Quorate: ./conformance/etcdctl/etcdctl
	cd conformance/etcdctl && GOWORK=off go build .

shim-tests: conformance dependents ## all of the above, and every command of etcdctl on real clusters
	cd conformance && GOWORK=off go test ./...

shim-tests-short: ## the same without what is slow; CI runs this
	cd conformance && GOWORK=off go test . && GOWORK=off go run . --short --parallel 3 && GOWORK=off go run . --suite dependents --short && GOWORK=off go test -tags experiment -count=1 ./referee
	cd conformance && GOWORK=off go test -short ./etcdctl && GOWORK=off go run ./dependents

kube-apiserver: ## build the real kube-apiserver 1.36.3 from its released modules; five minutes when nothing is cached
	cd lab/kube/apiserver && GOWORK=off go build -trimpath -ldflags '-s -w -X k8s.io/component-base/version.gitVersion=v1.36.3' -o bin/kube-apiserver .

kube-apiserver-over-shim: ## the same over Quorate
	cd lab/kube/apiserver && GOWORK=off go build -modfile=overshim.mod -trimpath -ldflags '-s -w -X k8s.io/component-base/version.gitVersion=v1.36.3' -o bin/kube-apiserver-over-shim .

kube-servers: kube-apiserver-over-shim ## that kube-apiserver on kine and on etcd 3.5, two minutes under load each, and its storage tests there; 20 minutes
	QUORATE_KUBE_APISERVER=$(KUBE_APISERVER)-over-shim go test -count=1 -v -timeout 40m -run '^TestKube' ./lab/servers -args -load=2m

kube-faults: kube-apiserver kube-apiserver-over-shim ## a real kube-apiserver over the official client and over Quorate, while its etcd is in trouble; eight minutes
	mkdir -p .cache && go run ./lab/kube/faults -official $(KUBE_APISERVER) -quorate $(KUBE_APISERVER)-over-shim -hold 12s -starts 3 > .cache/kube-faults.json && mv .cache/kube-faults.json docs/kube-faults.json && go test ./lab/kube/faults -run TestPictureIsOfTheRecord -update

kube-test: kube-apiserver ## the Kubernetes resolver on a real API server, stopped for 100 s, and beside kuberesolver; four minutes
	QUORATE_KUBE_APISERVER=$(KUBE_APISERVER) go test -race -count=1 -v ./lab/kube/...
	QUORATE_KUBE_APISERVER=$(KUBE_APISERVER) go test -race -tags experiment -count=1 -v -timeout 20m ./lab/integration/kuberesolver -args -stopped=100s

kube-test-short: kube-apiserver ## what CI runs of it; a minute and a half
	QUORATE_KUBE_APISERVER=$(KUBE_APISERVER) go test -race -tags experiment -count=1 -short ./lab/kube/... ./lab/integration/kuberesolver

servers: ## what both clients do on every server, from etcd 3.4 to 3.8 and kine, and the table of docs/servers.md; a quarter of an hour
	go run ./lab/servers/matrix -page docs/servers.md
	go test -count=1 -run '^TestClients/.*TLS' ./lab/behaviours -tls # all recorded behaviours of one member; make test has some over TLS

servers-build: ## the servers and programs of servers-short
	go run ./lab/servers/matrix -short -run '^$$'

servers-short: ## the same on the servers that CI runs, and quorate doctor on kine; three minutes, and as long again to build them
	go run ./lab/servers/matrix -short
	QUORATE_KINE=1 go test -count=1 -run '^TestKine$$' ./cmd/quorate/internal/doctor

keepalive-test: ## accepted pairs draw no GOAWAY in three idle minutes on a real etcd
	go test -tags experiment ./lab/integration/keepalive -count=1 -v -run '^TestIdleOnEtcd$$' -idle 3m

fuzz-endpoint: ## one fuzz target for half a minute
	go test ./internal/endpoint -run '^$$' -fuzz FuzzParse -fuzztime 30s
fuzz-errors:
	go test ./retry -run '^$$' -fuzz FuzzClassify -fuzztime 30s
fuzz-config:
	go test ./retry -run '^$$' -fuzz FuzzParseServiceConfig -fuzztime 30s

# Minimizing is bounded, because by default it takes most of the time.
fuzz-watch:
	go test ./clientv3/internal/watch -run '^$$' -fuzz '^FuzzSession$$' -fuzztime 30s -fuzzminimizetime 20x
fuzz-watch-hostile:
	go test ./clientv3/internal/watch -run '^$$' -fuzz '^FuzzSessionHostile$$' -fuzztime 30s -fuzzminimizetime 20x
fuzz-watch-catchup:
	go test ./clientv3/internal/watch -run '^$$' -fuzz '^FuzzCatchup$$' -fuzztime 30s -fuzzminimizetime 20x
fuzz-dns:
	go test ./resolver/dns -run '^$$' -fuzz FuzzTarget -fuzztime 30s
fuzz-dns-answers:
	go test ./resolver/dns -run '^$$' -fuzz FuzzRecorder -fuzztime 30s
fuzz-lease:
	go test ./clientv3/internal/lease -run '^$$' -fuzz FuzzMachine -fuzztime 30s -fuzzminimizetime 5s
fuzz-settings:
	go test ./pool/grpcpool -run '^$$' -fuzz FuzzSettingsReader -fuzztime 30s
fuzz-target:
	cd resolver/kubernetes && go test . -run '^$$' -fuzz FuzzParseTarget -fuzztime 30s

bench: ## watches and leases beside the official client; a quarter of an hour
	go test ./lab/bench -run '^$$' -bench Clients -benchtime 3x -timeout 1h

bench-fleet: ## what a hundred clients cost a cluster, in health and under faults, beside the official client; nine minutes
	go test ./lab/bench -run '^$$' -bench 'Fleet/(idle|light|events|frozen|overload|no-quorum)$$' -benchtime 1x -timeout 1h

bench-pools: ## connection pools beside one connection, blind rotation and puddle; five minutes
	go test ./lab/bench/pools -run '^$$' -bench . -benchtime 5x

bench-toolkit: ## channels beside those with gRPC's policies, under faults and load: medians of three rounds; half an hour
	go test ./lab/bench/toolkit -run '^$$' -bench . -benchtime 3x -timeout 2h

bench-watches: ## the creation, the memory and the replay of watches, and slow readers, beside the official client; five minutes
	go test ./lab/bench -run '^$$' -bench 'Clients/(create|idle|replay|stalled)$$' -benchtime 5x -timeout 1h

# Tables of docs/performance.md come last on the standard output; RESULTS is a file for a line of JSON for each case and client.
ROUNDS ?= 61
RESULTS ?= $(CURDIR)/.cache/bench-calls.json
BENCH_CALLS = mkdir -p $(dir $(RESULTS)) && go test ./lab/bench/calls -run '^$$' -timeout 2h -benchtime $(ROUNDS)x -results $(RESULTS) -bench

bench-calls: ## what a call costs, beside the bare stub and the official client; eight minutes
	$(BENCH_CALLS) '/^(near|tls|members)$$'

bench-minimal: ## gets and puts, also beside the least that a client costs; two minutes
	$(BENCH_CALLS) '/^minimal$$'

bench-routing: ## puts and gets with 10 ms between the members, by strategy; a minute
	$(BENCH_CALLS) '/^distant$$'

bench-batch: ## calls that share RPCs, beside calls that do not; six minutes
	$(BENCH_CALLS) '/^(shared|far)$$'

bench-once: ## idempotent and fenced puts, beside plain ones; two minutes
	$(BENCH_CALLS) '/^once$$'

bench-observed: ## what observers add to a get; two minutes
	$(BENCH_CALLS) '/^observed$$'
