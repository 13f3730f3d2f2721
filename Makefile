# The commands of this project. `make` alone builds.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
MAKEFLAGS += --no-print-directory

export CGO_ENABLED ?= 0
export GOFLAGS += -buildvcs=false -trimpath
GOARCH := $(shell go env GOARCH)
COMMIT := $(shell git describe --always --dirty --exclude '*' 2>/dev/null)
NUMBER := $(shell cat internal/version/VERSION)
VERSION := $(NUMBER)$(if $(COMMIT),$(if $(findstring -,$(NUMBER)),+$(COMMIT)))
LINKED := -s -w -X github.com/pyro-mcp/pyro/internal/version.commit=$(COMMIT)
TOOL := go tool -modfile=$(CURDIR)/tools/go.mod
GUEST := internal/guest/files/pyro-guest-$(GOARCH)

.PHONY: build runsc guest demo host-demo test unit machines soak bench lint generate arm64 clean

build: guest runsc ## bin/pyro, one file with the guest agent in it, and beside it bin/pyro-runsc and bin/pty-mcp
	@go build -ldflags '$(LINKED)' -o bin/pyro ./cmd/pyro
	@go build -ldflags '$(LINKED)' -o bin/pty-mcp ./cmd/pty-mcp

runsc: ## gVisor, as the program that pyro's machines are under it
	@cd runsc && go build -ldflags '-s -w -X gvisor.dev/gvisor/runsc/version.version=$(VERSION)' -o ../bin/pyro-runsc .

guest: ## the guest agent, packed for bin/pyro
	@scripts/guest.sh $(GOARCH)

demo: ## install what is missing, build, and run real work in a real machine
	@scripts/install.sh run
	@$(MAKE) build
	@scripts/demo.sh

host-demo: ## install what is missing, build, and call the host agent as a control plane does
	@scripts/install.sh run
	@$(MAKE) build
	@scripts/host_demo.sh

# With PYRO_TEST_REQUIRE a test fails where it would skip for want of a tool.
test: ## install what is missing, run all tests, and say how long each part took
	@scripts/install.sh test
	@PYRO_TEST_REQUIRE=1 scripts/parts.sh build lint unit machines

# lint runs vet, on all packages and tests.
# The race detector would have each process wait for a second when it ends, and the tests have some hundred; what they start has ended by then.
# One package more at once than there are processors: some wait as much as they work.
unit: build ## tests that boot nothing, under the race detector
	@CGO_ENABLED=1 GORACE=atexit_sleep_ms=0 scripts/tests.sh -race -vet=off -p $$(($$(nproc) + 1)) ./...
	@cd runsc && ../scripts/tests.sh -vet=off ./...

machines: build ## tests on real machines
	@scripts/machines.sh

soak: build arm64 ## the long runs: 300 pauses, 50 live forks at once, kills at many moments. An hour or more
	PYRO_TEST_LONG=1 CGO_ENABLED=1 go test -race -count 1 -timeout 1h ./internal/secret
	PYRO_TEST_PAUSES=300 PYRO_TEST_FORKS=50 PYRO_TEST_KILLS=8 PYRO_RUNSC=$(CURDIR)/bin/pyro-runsc go test -tags machine -count 1 -timeout 4h -run 'TestRoundsOfPauses|TestLiveForks|TestKilled|TestHostAgentIsKilled' ./test

bench: build ## the figures, each against its floor of the same run
	@scripts/install.sh bench
	@go run ./bench

lint:
	@test -z "$$(gofmt -l $$(git ls-files '*.go'))" || { gofmt -l $$(git ls-files '*.go'); echo 'make lint: run gofmt -w on these' >&2; exit 1; }
	@go vet -tags machine ./... && cd runsc && go vet ./...
	@$(TOOL) staticcheck -tags machine ./...
	@cd runsc && $(TOOL) staticcheck ./...
	@cd tools && go build -o ../bin/typecheck ./typecheck
	@GOARCH=arm64 bin/typecheck . runsc

arm64: ## builds, though nothing here can run it; lint only type-checks it
	@GOARCH=arm64 go build -o /dev/null ./cmd/pty-mcp && GOARCH=arm64 go build -o /dev/null ./cmd/pyro && GOARCH=arm64 go build -o /dev/null ./cmd/pyro-guest
	@cd runsc && GOARCH=arm64 go build -o /dev/null .

generate: ## generated code and docs; CI fails when they differ
	@PATH="$$(go env GOROOT)/bin:$$PATH" $(TOOL) buf generate
	@go test . ./internal/cli ./internal/ptymcp -run 'TestMCPReference|TestMCPContract|TestRPCReference|TestRPCContract|TestCLIReference|TestContract|TestReference|TestToolsContract' -update

clean:
	rm -rf bin internal/guest/files/pyro-guest-*
