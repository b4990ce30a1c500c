# tally -- `make run` tries it, `make test` proves it. `make help` lists the rest.
CC       ?= gcc
CXX      ?= g++
VARIANT  ?= release
OUT      := build/$(VARIANT)
PKGS     := yaml-0.1 libxxhash openssl libjwt
WARN     := -Wall -Wextra -Wshadow -Wconversion -Werror
CWARN    := $(WARN) -Wstrict-prototypes -Wmissing-prototypes
OPT_release := -O2 -g
OPT_asan    := -O1 -g -fsanitize=address,undefined -fno-omit-frame-pointer -DTALLY_SLOW_CHECKS
OPT_tsan    := -O1 -g -fsanitize=thread -DTALLY_SLOW_CHECKS
OPT_small   := -O1 -g -fsanitize=address,undefined -DTALLY_SMALL_WORLD -DTALLY_SLOW_CHECKS
CPPFLAGS += -Isrc -D_GNU_SOURCE
CFLAGS   += -std=gnu17 $(CWARN) $(OPT_$(VARIANT)) -pthread -MMD -MP
CXXFLAGS += -std=c++17 $(WARN) $(OPT_$(VARIANT)) -fno-exceptions -MMD -MP
LDFLAGS  += $(OPT_$(VARIANT)) -pthread -rdynamic
LDLIBS   += -lrocksdb -lsimdjson -lyaml -lxxhash -lcrypto -ljwt -ljansson -lstdc++ -lm

SRC  := $(wildcard src/*.c src/*/*.c src/*/*/*.c)
OBJ  := $(SRC:%.c=$(OUT)/%.o) $(OUT)/src/wire/json.o
LIB  := $(filter-out $(OUT)/src/main.o,$(OBJ))
UNIT := $(patsubst tests/unit/%.c,$(OUT)/tests/%,$(wildcard tests/unit/test_*.c))

all: build/tally
build/tally: $(OUT)/tally
	@ln -sf release/tally $@
$(OUT)/tally: $(OBJ)
	$(CC) $(LDFLAGS) -o $@ $^ $(LDLIBS)
$(OUT)/libtally.a: $(LIB)
	@rm -f $@ && ar rcs $@ $^
$(OUT)/%.o: %.c
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS) $(CFLAGS) -c -o $@ $<
$(OUT)/%.o: %.cc
	@mkdir -p $(@D)
	$(CXX) $(CPPFLAGS) $(CXXFLAGS) -c -o $@ $<
$(OUT)/tests/%: $(OUT)/tests/unit/%.o $(OUT)/libtally.a
	@mkdir -p $(@D)
	$(CC) $(LDFLAGS) -o $@ $^ -lcmocka $(LDLIBS)
unit: $(UNIT)
	@set -e; for t in $(UNIT); do $$t; done
clean:
	rm -rf build
.PHONY: all unit clean
.SECONDARY:
-include $(OBJ:.o=.d)
