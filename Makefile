# tally -- `make run` tries it, `make test` proves it. `make help` lists the rest.
#
# Everything is built per variant into build/<variant>/: release, asan (address and undefined
# behaviour), tsan (threads), small (tiny limits, so that every edge is crossed), coverage (counts
# which lines ran) and fuzz (clang).

VARIANT ?= release
OUT     := build/$(VARIANT)

ifeq ($(VARIANT),fuzz)
CC  := clang
CXX := clang++
endif

# gcc's "maybe uninitialized" is wrong more often than right in sanitized code; release keeps it.
OPT_release := -O2 -g
OPT_asan    := -O1 -g -fsanitize=address,undefined -fno-sanitize-recover=undefined \
               -fno-omit-frame-pointer -Wno-maybe-uninitialized -DTALLY_SLOW_CHECKS
OPT_tsan    := -O1 -g -fsanitize=thread -Wno-maybe-uninitialized -DTALLY_SLOW_CHECKS
OPT_small   := $(OPT_asan) -DTALLY_SMALL_WORLD
# Counts are added atomically, because many threads run the same lines.
OPT_coverage := -O0 -g --coverage -fprofile-update=atomic -Wno-maybe-uninitialized
OPT_fuzz    := -O1 -g -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize=vptr \
               -fno-sanitize-recover=undefined -DTALLY_SLOW_CHECKS

WARN     := -Wall -Wextra -Wshadow -Wconversion -Werror
CWARN    := $(WARN) -Wstrict-prototypes -Wmissing-prototypes
CPPFLAGS += -Isrc -Iclients/c -isystem /usr/include/postgresql -D_GNU_SOURCE -MMD -MP
CFLAGS   += -std=gnu17 $(CWARN) $(OPT_$(VARIANT)) -pthread
CXXFLAGS += -std=c++17 $(WARN) $(OPT_$(VARIANT)) -pthread -fno-exceptions
LDFLAGS  += $(OPT_$(VARIANT)) -pthread -rdynamic
# Some 160 programs are linked for the tests; gold does it in a third of the time. Not with clang, of
# whose sanitizer it complains at length.
ifneq ($(VARIANT),fuzz)
LDFLAGS  += $(if $(shell command -v ld.gold),-fuse-ld=gold)
endif
LDLIBS   += -lrocksdb -lsimdjson -lyaml -lxxhash -lzstd -lssl -lcrypto -ljwt -lpq -lcurl -ljansson -lz -lstdc++ -lm

# Tests see the whole library except main.o, and whatever helps them in tests/support.
TESTFLAGS := -Itests -Wno-unused-parameter

SRC     := $(wildcard src/*.c src/*/*.c src/*/*/*.c src/*/*/*/*.c)
CXXSRC  := $(wildcard src/*/*.cc src/*/*/*/*.cc)
# Fuzzers reach half of it, and clang with all its checks takes a second for each file.
ifeq ($(VARIANT),fuzz)
SRC     := $(filter-out $(addprefix src/,cli/% reconcile/% tend/% serve/%),$(SRC))
endif
OBJ     := $(SRC:%.c=$(OUT)/obj/%.o) $(CXXSRC:%.cc=$(OUT)/obj/%.o)
WEB     := $(shell find web -name node_modules -prune -o -type f -print)
ASSETS  := build/web/assets.c
OBJ     += $(OUT)/obj/web/assets.o
COMPILED := $(filter %.c %.cc,$(shell scripts/files c))
EDIT_CPPFLAGS = $(filter-out -MMD -MP,$(CPPFLAGS))
LIB     := $(OUT)/libserver.a
CLIENT  := $(OUT)/libtally.a
CLIENT_OBJ := $(patsubst %.c,$(OUT)/obj/%.o,$(wildcard clients/c/*.c))
SUPPORT := $(patsubst %.c,$(OUT)/obj/%.o,$(wildcard tests/support/*.c))
UNIT    := $(patsubst tests/unit/%.c,$(OUT)/tests/%,$(wildcard tests/unit/test_*.c))
SIM     := $(if $(wildcard tests/sim/sim.c),$(OUT)/tests/sim)
FORGET  := $(OUT)/tests/forget.so
FUZZ    := $(patsubst tests/fuzz/%.c,$(OUT)/fuzz/%,$(wildcard tests/fuzz/fuzz_*.c))
BENCH   := build/bench/limit build/bench/bulk build/bench/load

.DEFAULT_GOAL := all
# V=1 shows whole commands.
Q := $(if $(V),,@)

##@ Use it

all: build/tally $(OUT)/libtally.so ## build the server into build/tally, and the C client's library

run: ## build and start a demo server in the foreground; STORE=postgres: two nodes over a PostgreSQL of their own
	@scripts/deps build run $(if $(filter postgres,$(STORE)),nodes)
	@$(MAKE) --no-print-directory -j$$(nproc) all
	@mkdir -p build/demo
	@exec $(if $(filter postgres,$(STORE)),scripts/demo-nodes,build/tally serve --dev) --config etc/demo.yaml

deps: ## install what building and testing need (Debian packages)
	@scripts/deps build test

install: all ## into PREFIX (/usr/local), SYSCONFDIR (/etc/tally), below DESTDIR
	install -D -m 755 build/release/tally $(DESTDIR)$(PREFIX)/bin/tally
	install -D -m 644 clients/c/tally.h $(DESTDIR)$(PREFIX)/include/tally.h
	install -D -m 644 build/release/libtally.a $(DESTDIR)$(PREFIX)/lib/libtally.a
	install -m 755 build/release/libtally.so $(DESTDIR)$(PREFIX)/lib/libtally.so.0
	ln -sf libtally.so.0 $(DESTDIR)$(PREFIX)/lib/libtally.so
	install -d $(DESTDIR)$(PREFIX)/lib/pkgconfig
	sed 's|@PREFIX@|$(PREFIX)|; s|@VERSION@|$(VERSION)|' clients/c/tally.pc.in \
	    > $(DESTDIR)$(PREFIX)/lib/pkgconfig/tally.pc
	install -d $(addprefix $(DESTDIR)$(PREFIX)/share/,man/man1 $(dir $(COMPLETIONS)))
	build/release/tally help man > $(DESTDIR)$(PREFIX)/share/man/man1/tally.1
	$(foreach file,$(COMPLETIONS),build/release/tally completion $(word 1,$(subst /, ,$(subst -, ,$(file)))) \
	    > $(DESTDIR)$(PREFIX)/share/$(file) &&) true
	@if [ -e $(DESTDIR)$(SYSCONFDIR)/tally.yaml ]; then \
	    echo "kept $(DESTDIR)$(SYSCONFDIR)/tally.yaml"; \
	else install -v -D -m 640 etc/tally.yaml $(DESTDIR)$(SYSCONFDIR)/tally.yaml; fi
	install -d $(DESTDIR)$(PREFIX)/share/doc/tally/examples $(DESTDIR)$(PREFIX)/lib/systemd/system
	install -m 644 README.md ARCHITECTURE.md HACKING.md CHANGELOG.md LICENSE $(wildcard docs/*.md) \
	    $(DESTDIR)$(PREFIX)/share/doc/tally
	cp -r etc/tally.yaml etc/examples/. etc/nginx etc/prometheus etc/grafana \
	    $(DESTDIR)$(PREFIX)/share/doc/tally/examples/
	sed 's|/usr/|$(PREFIX)/|g; s|/etc/tally/|$(SYSCONFDIR)/|g' packaging/tally.service \
	    > $(DESTDIR)$(PREFIX)/lib/systemd/system/tally.service
deb: all ## Debian packages of it, into build/deb
	@scripts/deps deb
	@scripts/deb
PREFIX     ?= /usr/local
SYSCONFDIR ?= /etc/tally
# Below share/; a path begins with its shell's name.
COMPLETIONS := bash-completion/completions/tally zsh/site-functions/_tally fish/vendor_completions.d/tally.fish
VERSION    := $(shell sed -n 's/^.define TALLY_VERSION "\(.*\)"/\1/p' src/base/version.h)

##@ Prove it

test: ## units, simulation, end to end, crashes, sanitizers, a short fuzz; prints one total
	@scripts/deps build test browser fuzz
	@tests/run

test-all: ## the same and what it leaves out: every end-to-end test with four lanes, too
	@scripts/deps build test browser fuzz
	@tests/run --all
unit: ## unit tests (VARIANT=asan and so on works here and below)
	@tests/run unit:$(VARIANT)
sim: ## the model simulation (SIM_SEEDS=200; SIM_FROM, by default another range each day)
	@tests/run sim:$(VARIANT)

sim-postgres: ## the same over a real PostgreSQL, by two nodes in turn (50 seeds)
	@tests/run sim_postgres:$(VARIANT)
sim-long: build-sim ## the same on all cores until Ctrl-C, or SIM_SEEDS of them; failures are kept
	@TALLY_VARIANT=$(VARIANT) tests/sim-long
e2e: ## the real server, spoken to over HTTP
	@tests/run e2e:$(VARIANT)
e2e-postgres: ## the same with PostgreSQL as the store; tests/e2e/support/exceptions.mjs has what is left out
	@TEST_ALL=1 tests/run postgres:$(VARIANT)
e2e-lanes: ## the end-to-end tests, all of them, against servers of four lanes
	@TEST_ALL=1 tests/run lanes:$(VARIANT)
browser: ## the dashboard in Chromium
	@scripts/deps build browser
	@tests/run browser:$(VARIANT)
crash: ## kill -9 under load, restart, compare
	@tests/run crash:$(VARIANT)
crash-postgres: ## the same on PostgreSQL
	@tests/run crash_postgres:$(VARIANT)
moving: build-e2e ## a million of everything into PostgreSQL and back, compared (SIZE=, KILLS= in each export and import, SEED=)
	@TALLY_BIN=$(OUT)/tally node tests/long/moving.mjs --size $(or $(SIZE),1000000) --kills $(or $(KILLS),0) --seed $(or $(SEED),1)
cluster: ## nodes over PostgreSQL: killed, frozen, cut off, broken off in a commit (CLUSTER_SEED=1, ONLY=name)
	@scripts/deps build test cluster
	@$(MAKE) --no-print-directory -j$$(nproc) build-cluster
	@TALLY_BIN=$(OUT)/tally CLUSTER_SEED=$(CLUSTER_SEED) ONLY=$(ONLY) node tests/cluster/cluster.mjs
powercut: ## the same on a disk that forgets what was not synced
	@tests/run powercut:$(VARIANT)
asan tsan small: ## units, a short simulation and end-to-end tests in that variant
	@tests/run unit:$@ sim:$@ e2e:$@
fuzz: ## every fuzzer for FUZZ_SECONDS (30)
	@scripts/deps build fuzz
	@FUZZ_SECONDS=$(or $(FUZZ_SECONDS),30) tests/run fuzz:fuzz
coverage: ## which lines of src/ the units and a short sim run, room by room (SUITES="unit sim e2e")
	@scripts/deps build test coverage
	@scripts/coverage $(SUITES)
bench: ## against Redis, PostgreSQL and the bare limit (QUICK=1: under 5 minutes; ONLY=row)
	@scripts/deps build bench
	@$(MAKE) --no-print-directory -j$$(nproc) all $(BENCH)
	@QUICK=$(QUICK) node bench/run.mjs

bench-growth: ## how cost grows, one curve each (ONLY=ids, BUDGET=seconds, QUICK=1)
	@scripts/deps build bench
	@$(MAKE) --no-print-directory -j$$(nproc) all $(BENCH)
	@QUICK=$(QUICK) node bench/growth.mjs

bench-lanes: ## exactly-once events with 1, 2 and 4 lanes, and what of an event one thread must do (QUICK=1)
	@scripts/deps build bench
	@$(MAKE) --no-print-directory -j$$(nproc) all $(BENCH)
	@QUICK=$(QUICK) node bench/lanes.mjs

bench-reconcile: ## 200 busy users on a conversation of 113,000 votes, reconciled with PostgreSQL (QUICK=1)
	@scripts/deps build bench
	@$(MAKE) --no-print-directory -j$$(nproc) all
	@QUICK=$(QUICK) node bench/reconcile.mjs

##@ Keep it clean

check: ## format, clang-tidy, cppcheck, include direction, banned calls, sizes, names, examples, citations, paths
	@scripts/deps build check
	@scripts/check
format: ## lay out every C file by .clang-format
	clang-format -i $$(scripts/files c)
docs: all ## write docs/openapi.json and docs/http.md anew from the route table
	build/tally help openapi > docs/openapi.json
	scripts/http-reference.mjs < docs/openapi.json > docs/http.md
screenshots: all tests/browser/node_modules/.installed ## take the pictures of the dashboard in docs/images
	@scripts/deps browser
	@TALLY_BIN=build/tally node tests/browser/screenshots.mjs docs/images
tags: ## index for vi (tags) and Emacs (TAGS); ERR_, METRIC_ and settings lead to their tables
	@scripts/deps tags
	@ctags $(CTAGS) -f tags $$(scripts/files c) $(TABLES)
	@ctags $(CTAGS) -e -f TAGS $$(scripts/files c) $(TABLES)
TABLES := $(wildcard src/base/*.def src/config/*.def)
CTAGS  := --langmap=C:+.def --kinds-C=+p --regex-C='/^(ERR|METRIC)\(([A-Z0-9_]+),/\1_\2/e/' \
          --regex-C='/^SETTING\(([a-z0-9_]+),/\1/m/'
compile_commands.json: $(COMPILED) ## for clangd and other clang tools: how each file is compiled
	@for f in $(COMPILED); do case $$f in *.cc) how='$(CXX) $(EDIT_CPPFLAGS) $(CXXFLAGS)' ;; \
	    *) how='$(CC) $(EDIT_CPPFLAGS) $(CFLAGS)' ;; esac; \
	    printf '{"directory":"%s","file":"%s","command":"%s $(TESTFLAGS) -c %s"}\n' "$(CURDIR)" $$f "$$how" $$f; \
	done | sed '1s/^/[/; $$!s/$$/,/; $$s/$$/]/' > $@
clean: ## remove build/
	rm -rf build compile_commands.json tags TAGS
help: ## this list
	@awk -F ':.*## ' '/^##@/ {printf "\n%s\n", substr($$0, 5)} \
	    /^[a-z0-9_. -]+:.*## / {printf "  make %-22s %s\n", $$1, $$2}' Makefile

# ---- how things are built; tests/run asks for build-<suite>, one variant at a time ----

build-unit: $(UNIT)
build-sim build-sim_postgres: $(SIM)
build-e2e: $(OUT)/tally $(OUT)/libtally.so tests/e2e/node_modules/.package-lock.json $(OUT)/tests/libtally
build-postgres: build-e2e
build-lanes: build-e2e
build-browser: $(OUT)/tally tests/browser/node_modules/.installed
build-crash_postgres: build-crash tests/e2e/node_modules/.package-lock.json
build-crash: $(OUT)/tally
build-cluster: $(OUT)/tally
build-powercut: $(OUT)/tally $(FORGET)
build-fuzz: $(FUZZ)

build/tally: build/release/tally
	@ln -sf release/tally $@
ifneq ($(VARIANT),release)
build/release/tally:
	@$(MAKE) VARIANT=release $@
endif
$(OUT)/tally: $(OUT)/obj/src/main.o $(LIB) $(CLIENT)
	@echo "  link $@"
	$(Q)$(CC) $(LDFLAGS) -o $@ $^ $(LDLIBS)
$(LIB): $(filter-out $(OUT)/obj/src/main.o,$(OBJ))
	@rm -f $@ && ar rcs $@ $^

# The C client stands alone: it knows nothing of src/.
$(CLIENT): $(CLIENT_OBJ)
	@rm -f $@ && ar rcs $@ $^
$(OUT)/libtally.so: $(CLIENT_OBJ)
	@echo "  link $@"
	$(Q)$(CC) $(OPT_$(VARIANT)) -shared -Wl,-soname,libtally.so.0 -o $@ $^ -lcurl -ljansson
	@ln -sf libtally.so $@.0
$(OUT)/tests/libtally: clients/c/tests/scenarios.c $(CLIENT) Makefile
	@mkdir -p $(@D) && echo "  $(VARIANT) $<"
	$(Q)$(CC) -D_GNU_SOURCE -Iclients/c $(CFLAGS) -o $@ $< $(CLIENT) -lcurl -ljansson
$(OUT)/obj/clients/%.o: clients/%.c Makefile | can-build
	@mkdir -p $(@D) && echo "  $(VARIANT) $<"
	$(Q)$(CC) -D_GNU_SOURCE -MMD -MP $(CFLAGS) -fPIC -c -o $@ $<

$(OUT)/obj/src/%.o: src/%.c Makefile | can-build
	@mkdir -p $(@D) && echo "  $(VARIANT) $<"
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) -c -o $@ $<
$(OUT)/obj/src/%.o: src/%.cc Makefile | can-build
	@mkdir -p $(@D) && echo "  $(VARIANT) $<"
	$(Q)$(CXX) $(CPPFLAGS) $(CXXFLAGS) -c -o $@ $<
# The dashboard: bundled by esbuild, written down as a C table (web/build.mjs).
$(OUT)/obj/web/assets.o: $(ASSETS) src/api/views/assets.h Makefile | can-build
	@mkdir -p $(@D) && echo "  $(VARIANT) $<"
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) -c -o $@ $<
$(ASSETS): $(WEB) web/node_modules/.installed
	$(Q)node web/build.mjs $@
web/node_modules/.installed: web/package.json web/package-lock.json | can-build
	@echo "  npm ci (web)"
	$(Q)cd web && npm ci --ignore-scripts --loglevel=error && touch node_modules/.installed
$(OUT)/obj/tests/%.o: tests/%.c Makefile | can-build
	@mkdir -p $(@D) && echo "  $(VARIANT) $<"
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) $(TESTFLAGS) -c -o $@ $<

# What a header shows after "Example:" is code: a test includes it, so that it goes on compiling
# (scripts/check-examples).
EXAMPLE = $(Q)mkdir -p $(@D) && sed -n '/^ \* Example:/,/^ \*\( [^ E]\|\/\)/ s/^ \*     //p' $< > $@
build/examples/%.inc: src/% Makefile
	$(EXAMPLE)
build/examples/clients/%.inc: clients/% Makefile
	$(EXAMPLE)
EXAMPLES := $(patsubst src/%,%,$(shell grep -rl '^ \* Example:' src clients/c))
$(patsubst %,$(OUT)/obj/tests/unit/test_%.o,store_example examples calendar zones): $(EXAMPLES:%=build/examples/%.inc)

LINK_TEST = $(Q)mkdir -p $(@D) && $(CC) $(LDFLAGS) -o $@ $^ -lcmocka $(LDLIBS)
$(OUT)/tests/%: $(OUT)/obj/tests/unit/%.o $(SUPPORT) $(LIB) $(CLIENT)
	$(LINK_TEST)
$(OUT)/tests/sim: $(patsubst %.c,$(OUT)/obj/%.o,$(wildcard tests/sim/*.c)) $(SUPPORT) $(LIB) $(CLIENT)
	$(LINK_TEST)
$(FORGET): tests/crash/forget.c Makefile | can-build
	@mkdir -p $(@D) && echo "  $(VARIANT) $<"
	$(Q)$(CC) -std=gnu17 -D_GNU_SOURCE $(CWARN) -O2 -g -pthread -fPIC -shared -o $@ $<
$(OUT)/fuzz/%: $(OUT)/obj/tests/fuzz/%.o $(SUPPORT) $(LIB) $(CLIENT)
	@mkdir -p $(@D)
	$(Q)$(CC) $(LDFLAGS) -fsanitize=fuzzer -o $@ $^ $(LDLIBS)
tests/e2e/node_modules/.package-lock.json: tests/e2e/package.json tests/e2e/package-lock.json
	@echo "  npm $(@D)"
	$(Q)cd tests/e2e && npm ci --loglevel=error && touch node_modules/.package-lock.json
tests/browser/node_modules/.installed: tests/browser/package.json tests/browser/package-lock.json
	@echo "  npm ci (tests/browser)"
	$(Q)cd tests/browser && npm ci --ignore-scripts --loglevel=error && touch node_modules/.installed
build/bench/%: bench/%.c bench/event_id.h Makefile
	@mkdir -p $(@D) && echo "  $(VARIANT) $<"
	$(Q)$(CC) -std=gnu17 -D_GNU_SOURCE $(CWARN) -O2 -g -o $@ $<

can-build:
	@scripts/deps --check build

.PHONY: all tags browser build-browser screenshots run deps docs install deb test unit sim sim-long e2e e2e-postgres crash crash-postgres cluster build-cluster powercut asan tsan small fuzz coverage bench bench-reconcile check format \
    clean help build-unit build-sim build-e2e build-crash build-powercut build-fuzz can-build
.PHONY: moving sim-postgres test-all e2e-lanes build-lanes bench-lanes
.SECONDARY:
-include $(shell find $(OUT)/obj -name '*.d' 2>/dev/null)
