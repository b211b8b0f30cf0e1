# The first command builds .venv; later ones reuse it.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
APP := $(VENV)/.app
READY := $(VENV)/.ready
CORE := .venv-core
NATIVE := $(wildcard src/wassloss/native/*.cpp src/wassloss/native/*.hpp src/wassloss/native/*.h)
PYTEST := -m pytest --numprocesses auto --dist worksteal

export PIP_DISABLE_PIP_VERSION_CHECK := 1

# Data sets are read from WASSLOSS_DATA, by default a directory next to the checkout if it exists.
ifneq ($(wildcard ../shared/data),)
export WASSLOSS_DATA ?= $(abspath ../shared/data)
endif

.PHONY: help
help:  ## list the commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: demo
demo: $(APP)  ## classify definitions with and without a Wasserstein loss and compare the mistakes
	$(BIN)/python -W error -m wassloss.app demo

.PHONY: test
test: $(READY)  ## run the tests and the doctests
	$(BIN)/python $(PYTEST)

# The last bits of a product depend on the processor and on the number of threads, and a test may rely on the state that another
# leaves. These two targets find such tests. The seed of the order is printed; `make test-generic ORDER=1234` repeats it.
ORDER ?= default
IN_ANY_ORDER := -p randomly --randomly-seed=$(ORDER)

.PHONY: test-generic
test-generic: $(READY)  ## run the tests without vector instructions, with one thread, in random order
	ATEN_CPU_CAPABILITY=default WASSLOSS_INSTRUCTIONS=baseline OMP_NUM_THREADS=1 $(BIN)/python $(PYTEST) $(IN_ANY_ORDER)

.PHONY: test-threads
test-threads: $(READY)  ## run the tests with four threads each, in random order
	OMP_NUM_THREADS=4 OMP_WAIT_POLICY=passive $(BIN)/python $(PYTEST) $(IN_ANY_ORDER)

# In a copy, because an editable installation keeps its compiled core among the sources.
.PHONY: test-core
test-core: $(CORE)/.ready  ## run the tests without the compiled core, Triton or any other optional package
	cd $(COPY) && $(IN_COPY)/python -c 'from wassloss.native import library; assert not library.available()'
	cd $(COPY) && WASSLOSS_CORE=optional $(IN_COPY)/python $(PYTEST) $(IN_ANY_ORDER)

# AddressSanitizer must be loaded before Python, together with the C++ library, because it intercepts C++ exceptions. Leaks are
# not checked, because Python does not free everything at exit. The test that runs out of memory limits the address space, of
# which AddressSanitizer needs terabytes.
SANITIZED := $(CURDIR)/build/sanitized
SANITIZERS = PYTHONPATH=$(SANITIZED) ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=print_stacktrace=1 \
  LD_PRELOAD="$$($${CXX:-g++} -print-file-name=libasan.so) $$($${CXX:-g++} -print-file-name=libstdc++.so)"
.PHONY: sanitize
sanitize: $(READY)  ## test the compiled core under AddressSanitizer and UndefinedBehaviorSanitizer
	rm -rf $(SANITIZED)
	WASSLOSS_BUILD=sanitize $(BIN)/python -m pip install -qq --no-deps --target $(SANITIZED) .
	$(SANITIZERS) $(BIN)/python -c 'from wassloss.native import library; assert "sanitized" in library.__file__ and library.available()'
	$(SANITIZERS) $(BIN)/python -m pytest -q tests/native -k "not running_out_of_memory"
	$(SANITIZERS) $(BIN)/python -m tests.fuzz --calls $(CALLS) --minutes $(MINUTES) --seed $(SEED)

# Uses PYTHON instead of .venv, because torch on a machine with a GPU is built for its driver. That Python needs the other
# dependencies of the core (POT is easily forgotten), pytest-xdist and hypothesis.
.PHONY: test-cuda
test-cuda:  ## run the tests of everything that has a GPU version, with the interpreter PYTHON
	PYTHONPATH=src:$$PYTHONPATH $(PYTHON) -m pytest --numprocesses auto --dist worksteal -p no:benchmark \
	  tests/kernels tests/ground/test_cuda.py tests/losses/test_as_cross_entropy.py tests/losses/test_dense_targets.py tests/losses/test_evaluators.py tests/test_cuda.py \
	  tests/experiments/lab/test_many_cuda.py tests/transport/test_newton_gpu.py tests/transport/test_sinkhorn.py

# A failure prints the command that repeats its batch. A million calls take ten to thirty minutes on one core:
#   make fuzz CALLS=1000000 MINUTES=60 SEED=1
CALLS ?= 100000
MINUTES ?= 30
SEED ?= 0
.PHONY: fuzz
fuzz: $(READY)  ## compare random calls with a reference: CALLS, MINUTES, SEED
	$(BIN)/python -m tests.fuzz --calls $(CALLS) --minutes $(MINUTES) --seed $(SEED)

# About an hour on two cores. Results are kept in build/mutants.jsonl, from which a second run resumes.
MUTANTS ?= 300
.PHONY: mutants
mutants: $(READY)  ## make small changes to the library and list those no test catches: MUTANTS, SEED
	$(BIN)/python -m scripts.mutants --count $(MUTANTS) --seed $(SEED)

.PHONY: slow
slow: $(READY)  ## run the tests that take minutes
	$(BIN)/python -m pip install -qq -c constraints.txt --group slow
	$(BIN)/python -m pytest -m slow

# Uses no .venv, in order to test what users install. To test the oldest supported dependencies, which takes gigabytes of downloads:
#   make smoke PYTHON=python3.10 SMOKE_CONSTRAINTS=constraints-oldest.txt
SMOKE_CONSTRAINTS ?= constraints.txt
SMOKE := build/smoke
.PHONY: smoke
smoke:  ## build the wheel, install it into an empty environment, and use it
	rm -rf $(SMOKE)
	$(PYTHON) -m venv $(SMOKE)
	$(SMOKE)/bin/python -m pip wheel -qq --no-deps -w $(SMOKE)/wheel .
	$(SMOKE)/bin/python -m pip install -qq -c $(SMOKE_CONSTRAINTS) $(SMOKE)/wheel/*.whl
	$(SMOKE)/bin/python -I -W error tests/packaging/smoke.py core
	$(SMOKE)/bin/python -m pip install -qq -c $(SMOKE_CONSTRAINTS) "$$(echo $(SMOKE)/wheel/*.whl)[app]"
	$(SMOKE)/bin/python -I -W error tests/packaging/smoke.py app

# Tools are installed into a separate environment; tests of the sdist run in .venv.
.PHONY: release-check
release-check: $(READY)  ## build wheel and sdist; check contents, metadata, licences, links and workflows
	$(BIN)/python scripts/release_check.py

TIDY_FLAGS := -std=c++17 -fopenmp-simd -DWASSLOSS_ISA=baseline
.PHONY: check
check: $(READY)  ## check formatting, lint, types, security and compiler warnings
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy
	$(BIN)/bandit -q -r src
	$(BIN)/clang-format --dry-run -Werror $(NATIVE)
	WASSLOSS_BUILD=strict $(BIN)/python setup.py -q build_ext --build-lib build/strict --build-temp build/strict
	@if PATH=$(BIN):$$PATH command -v clang-tidy > /dev/null; then \
	  PATH=$(BIN):$$PATH clang-tidy --quiet $(filter %.cpp,$(NATIVE)) -- $(TIDY_FLAGS); \
	else echo "skipped: clang-tidy is not installed"; fi

# Not part of check, because it queries an advisory service over the network. Without --strict, a package that the service does
# not know counts as safe. The service does not know versions with a suffix like +cpu.
.PHONY: audit
audit: $(READY)  ## look up known vulnerabilities of the installed packages; needs the network
	@mkdir -p build
	$(BIN)/python -m pip freeze --exclude-editable | sed 's/+.*//' > build/audit.txt
	@$(BIN)/pip-audit --strict --disable-pip --no-deps -r build/audit.txt || { \
	  echo "The audit failed: a package has a known vulnerability, or the advisory service could not be reached or does not"; \
	  echo "know a package (see above)."; exit 1; }

.PHONY: format
format: $(READY)  ## format the code and apply safe lint fixes
	$(BIN)/ruff check --fix-only
	$(BIN)/ruff format
	$(BIN)/clang-format -i $(NATIVE)

.PHONY: docs
docs: $(READY)  ## build the documentation, gallery included, into build/docs
	$(BIN)/python -m pip install -qq -c constraints.txt --group docs
	OMP_WAIT_POLICY=passive $(BIN)/python -m sphinx -W -E --keep-going -q -d build/doctrees docs build/docs
	$(BIN)/python docs/check_links.py build/docs
	@echo "Open build/docs/index.html"

.PHONY: reproduce
reproduce: $(READY)  ## reproduce the paper's results in results/; takes minutes, see experiments/README.md
	OMP_WAIT_POLICY=passive $(BIN)/python -m experiments

.PHONY: bench
bench: $(READY)  ## compare speed with POT, GeomLoss and OTT: docs/benchmarks
	$(BIN)/python -m pip install -qq -c constraints.txt --group bench
	$(BIN)/python benchmarks/run.py --suite quick
	$(BIN)/python benchmarks/plots.py docs/benchmarks/cpu.json

.PHONY: clean
clean:  ## remove .venv, caches and build outputs
	rm -rf $(VENV) $(CORE) build dist docs/gallery docs/sg_execution_times.rst .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -prune -exec rm -rf {} +

# Dependency groups (`--group`) came with pip 25.1; the pip of a new environment may be older.
PIP := pip>=25.1

# What a user of the application has. One pip command for the package and the pinned torch: two would fetch torch twice.
$(APP): pyproject.toml constraints.txt setup.py $(NATIVE)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10) and "wassloss needs Python 3.10 or newer, but $(PYTHON) is %d.%d; try: make PYTHON=python3.11" % sys.version_info[:2])'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -qq '$(PIP)'
	$(BIN)/python -m pip install -qq -c constraints.txt -e '.[app]'
	@touch $@

# What developers have besides.
$(READY): $(APP)
	$(BIN)/python -m pip install -qq -c constraints.txt --group dev
	@touch $@

# As on a machine without a compiler.
COPY := build/copy
IN_COPY := $(CURDIR)/$(CORE)/bin
$(CORE)/.ready: pyproject.toml constraints.txt setup.py | $(COPY)
	$(PYTHON) -m venv $(CORE)
	$(IN_COPY)/python -m pip install -qq '$(PIP)'
	cd $(COPY) && CC=false CXX=false $(IN_COPY)/python -m pip install -qq -c constraints.txt -e . --group pytest
	@touch $@

.PHONY: $(COPY)
$(COPY):
	rm -rf $@
	mkdir -p $@
	cp -R $(filter-out .git .venv .venv-core build dist .%_cache,$(wildcard .[a-z]* *)) $@
	rm -f $@/src/wassloss/native/_core.*
