# Refold. Two commands to start: make run, make test. make help lists the rest.
GO      ?= go
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
LDFLAGS := -s -w -X refold/infra/cli.Version=$(VERSION)
export GOFLAGS ?= -p=2

.PHONY: handbook run test build bench eval-retrieval fuzz lint vuln conformance help clean schemathesis

run: build ## build and serve: embedded defaults, no service, no key
	./bin/refold serve --sample

test: ## all tests; fetches and starts what they need, ends with a line per suite
	@bash tests/run

build: ## the binary, pure Go, in bin/; and refold-data, where there is a C compiler
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o bin/refold ./infra/cmd/refold
	@if command -v "$$($(GO) env CC | cut -d' ' -f1)" >/dev/null; then \
	  CGO_ENABLED=1 $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o bin/refold-data ./infra/cmd/refold-data || \
	  echo "bin/refold-data could not be built (see above), and the tool data_analysis is not offered"; \
	else echo "no C compiler: bin/refold-data is not built, and the tool data_analysis not offered"; fi

bench: ## the table of targets, each beside its comparator; RUN=G4,G10, FULL=1, JSON=1
	@$(GO) run ./tests/bench $(if $(RUN),-run $(RUN)) $(if $(FULL),-full) $(if $(JSON),-json)

eval-retrieval: ## how well documents are found: recall@5 of words, vectors and both
	@$(GO) test -count=1 -v ./tests/eval/retrieval

fuzz: ## every fuzz target for FUZZTIME (20s)
	@bash tests/fuzz

conformance: ## the store suite over every store
	$(GO) test -count=1 ./infra/memory ./infra/sqlite ./infra/postgres

schemathesis: ## the API document against a real server; EXAMPLES=20, SEED=1
	@./tests/schemathesis

lint: ## gofmt, vet, staticcheck
	@test -z "$$(gofmt -l $$(git ls-files '*.go'))" || { gofmt -l $$(git ls-files '*.go'); echo "run gofmt -w on these"; exit 1; }
	$(GO) vet ./...
	cd tests/bench/eino && $(GO) vet ./... # a module of its own, which goes stale unseen
	$(GO) run honnef.co/go/tools/cmd/staticcheck@v0.8.2 ./...

vuln: ## known vulnerabilities, where their database can be reached
	@bash tests/vuln

handbook: ## the sample knowledge base anew, from README and package comments
	$(GO) test ./infra/handbook -update

help: ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1\t\2/' | expand -t 24

clean: ## remove what was built
	rm -rf bin .cache
