# Every target is one line of ordinary Go commands; CI runs the same ones.
.PHONY: build test lint generate lab fuzz-endpoint fuzz-errors fuzz-config bench

GOLANGCI_LINT := github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0

build: ## compile everything
	go build work

test: ## the whole test suite: real etcd servers, race detector
	go test -race work

lint: ## golangci-lint at its pinned version, over all modules of the workspace
	go run $(GOLANGCI_LINT) run ./... ./lab/... ./cmd/quorate/...

generate: ## renew generated pages
	go generate work

lab: ## faults on a real cluster, used through Quorate; a minute and a half
	go run ./cmd/quorate lab

fuzz-endpoint: ## one fuzz target for half a minute
	go test ./endpoint -run '^$$' -fuzz FuzzParse -fuzztime 30s
fuzz-errors:
	go test ./retry -run '^$$' -fuzz FuzzClassify -fuzztime 30s
fuzz-config:
	go test ./retry -run '^$$' -fuzz FuzzParseServiceConfig -fuzztime 30s

bench: ## what a call costs, beside bare gRPC
	go test ./internal/channel -run '^$$' -bench Invoke -benchmem
