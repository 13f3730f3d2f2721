# The commands of this project. `make` without a target builds pyro.

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

.PHONY: build web runsc guest programs demo host-demo test test-all unit unit-all machines machines-all fuzz soak bench lint generate arm64 clean

build: guest runsc ## build bin/pyro, which contains the guest agent, bin/pyro-runsc and bin/pty-mcp
	@go build -ldflags '$(LINKED)' -o bin/pyro ./cmd/pyro
	@go build -ldflags '$(LINKED)' -o bin/pty-mcp ./cmd/pty-mcp

runsc: ## build bin/pyro-runsc, the gVisor program that runs pyro's machines
	@cd runsc && go build -ldflags '-s -w -X gvisor.dev/gvisor/runsc/version.version=$(VERSION)' -o ../bin/pyro-runsc .

web: ## build the page of "pyro serve", which the program embeds. The tests fail if web/dist is out of date
	@web/install.sh
	@cd web && npm run --silent build

guest: ## build and compress the guest agent that bin/pyro contains
	@scripts/guest.sh $(GOARCH)

programs: build ## build the programs that unit tests start: pyro, pyro-guest and pty-mcp
	@mkdir -p bin/test && ln -f bin/pyro bin/pty-mcp bin/test/
	@go build -ldflags '-s -w' -o bin/test/ ./cmd/pyro-guest

demo: ## install missing packages, build, and run a demonstration with real machines
	@scripts/install.sh run
	@$(MAKE) build
	@scripts/demo.sh

host-demo: ## install missing packages, build, and call the host agent as a control plane does
	@scripts/install.sh run
	@$(MAKE) build
	@scripts/host_demo.sh

# With PYRO_TEST_REQUIRE, a test fails if a tool that it needs is missing. Otherwise it is skipped.
test: ## install missing packages and run the tests that each change must pass
	@scripts/install.sh test
	@PYRO_TEST_REQUIRE=1 scripts/parts.sh --minutes 12 build lint unit machines

test-all: ## install missing packages and run all tests, also the long ones. This takes hours
	@scripts/install.sh test
	@PYRO_TEST_REQUIRE=1 scripts/parts.sh build arm64 lint unit-all machines-all fuzz soak

# -short makes some random tests shorter. -vet=off, because lint runs vet. The number of packages
# that run at once is two more than the number of processors, because many packages often wait. The
# packages that take longest start first, so that none of them runs alone at the end. The linker
# leaves out debug information and symbols, which take more than a third of its time. The race
# detector does not watch SQLite itself: its checks of pointers take a fifth of the time of tests
# with SQLite, and the rest takes a tenth.
#
# GORACE has options of the race detector. With atexit_sleep_ms=0, processes do not wait for a
# second at exit; the tests start some hundred processes. With huge pages for its own data, the race
# detector causes fewer page faults, which took a fifth of the time.
SLOWEST := serve supervisor/daemon agent/client control workspace ptymcp session/process cli storage
RACE := PYRO_TEST_PROGRAMS=$(CURDIR)/bin/test CGO_ENABLED=1 GORACE="atexit_sleep_ms=0 no_huge_pages_for_shadow=0" \
	scripts/tests.sh "./test ./web $(SLOWEST:%=./internal/%) ./..." -race -vet=off \
	'-ldflags=-s -w' '-gcflags=modernc.org/...=-d=checkptr=0 -race=false' -p $$(($$(nproc) + 2)) -timeout 60m
unit: programs ## run the tests without machines, with the race detector
	@$(RACE) -short
	@cd runsc && ../scripts/tests.sh ./... -vet=off
	@cd tools && ../scripts/tests.sh ./... -vet=off

unit-all: programs ## run the tests without machines, with all rounds and a new random seed
	@PYRO_TEST_SEED=$${PYRO_TEST_SEED:-$$RANDOM} && export PYRO_TEST_SEED && $(RACE)
	@scripts/tests.sh ./internal/danger -vet=off -run '^(TestMemory|TestTime)$$' # not under the race detector
	@cd runsc && ../scripts/tests.sh ./... -vet=off
	@cd tools && ../scripts/tests.sh ./... -vet=off

machines: build ## run tests with real machines under gVisor, and a few with emulated machines
	@scripts/machines.sh quick

machines-all: build ## run all tests with real machines, under gVisor and with emulated machines
	@scripts/machines.sh all

fuzz: programs ## run each fuzz test for a minute, or for FUZZTIME
	@PYRO_TEST_PROGRAMS=$(CURDIR)/bin/test scripts/fuzz.sh

soak: build ## repeat what needs many rounds: 300 pauses, 50 live forks, many kills, 500 of them of "pyro serve"
	PYRO_TEST_LONG=1 CGO_ENABLED=1 go test -race -count 1 -timeout 1h ./internal/secret ./internal/serve
	PYRO_TEST_LONG=1 PYRO_TEST_PAUSES=300 PYRO_TEST_FORKS=50 PYRO_TEST_KILLS=8 PYRO_RUNSC=$(CURDIR)/bin/pyro-runsc go test -tags machine -count 1 -timeout 4h -run 'TestRoundsOfPauses|TestLiveForks|TestKilled|TestHostAgentIsKilled|TestServeIsKilled' ./test

bench: build ## measure pyro, and compare each figure with a floor from the same run
	@scripts/install.sh bench
	@go run ./bench

lint:
	@test -z "$$(gofmt -l $$(git ls-files '*.go'))" || { gofmt -l $$(git ls-files '*.go'); echo 'make lint: run gofmt -w on these files' >&2; exit 1; }
	@go vet -tags machine ./... && cd runsc && go vet ./...
	@$(TOOL) staticcheck -tags machine ./...
	@cd runsc && $(TOOL) staticcheck ./...
	@cd tools && go build -o ../bin/typecheck ./typecheck
	@GOARCH=arm64 bin/typecheck . runsc
	@scripts/prose.sh
	@scripts/generated.sh

arm64: ## build all programs for arm64. No test runs them, and lint only type-checks the code
	@GOARCH=arm64 go build -o /dev/null ./cmd/pty-mcp && GOARCH=arm64 go build -o /dev/null ./cmd/pyro && GOARCH=arm64 go build -o /dev/null ./cmd/pyro-guest
	@cd runsc && GOARCH=arm64 go build -o /dev/null .

generate: ## generate code and docs. The tests fail if the generated docs are out of date
	@PATH="$$(go env GOROOT)/bin:$$PATH" $(TOOL) buf generate
	@go test ./internal/operations ./internal/cli ./internal/ptymcp -run 'TestMCPReference|TestMCPContract|TestRPCReference|TestRPCContract|TestCLIReference|TestContract|TestReference|TestToolsContract' -update
	@go test ./internal/serve -run 'TestOpenAPI|TestGoClient' -update
	@web/install.sh
	@go test ./web -run TestSchema -update

clean:
	rm -rf bin internal/guest/files/pyro-guest-*
