# Every command sets itself up: the first one builds .venv, the next ones find it ready.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
CORE := .venv-core
PYTEST := -m pytest --numprocesses auto --dist worksteal

export PIP_DISABLE_PIP_VERSION_CHECK := 1

# Data sets are looked for in WASSLOSS_DATA; a checkout may have them in a directory beside it.
ifneq ($(wildcard ../shared/data),)
export WASSLOSS_DATA ?= $(abspath ../shared/data)
endif

.PHONY: help
help:  ## list the commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: demo
demo: $(READY)  ## classify definitions with and without a Wasserstein loss and compare the mistakes
	$(BIN)/python -W error -m wassloss.cli demo

.PHONY: test
test: $(READY)  ## run the tests and the doctests
	$(BIN)/python $(PYTEST)

# Last bits of a product depend on the processor and on the number of threads, and a test may leave something behind that
# another needs. These two find tests that depend on any of it; the seed of the order is printed, and
# `make test-generic ORDER=1234` repeats it.
ORDER ?= default
IN_ANY_ORDER := -p randomly --randomly-seed=$(ORDER)

.PHONY: test-generic
test-generic: $(READY)  ## the tests as on the plainest processor, with one thread, in random order
	ATEN_CPU_CAPABILITY=default NUMBA_CPU_NAME=generic OMP_NUM_THREADS=1 $(BIN)/python $(PYTEST) $(IN_ANY_ORDER)

.PHONY: test-threads
test-threads: $(READY)  ## the tests with four threads each, in random order
	OMP_NUM_THREADS=4 OMP_WAIT_POLICY=passive $(BIN)/python $(PYTEST) $(IN_ANY_ORDER)

.PHONY: test-core
test-core: $(CORE)/.ready  ## the tests without Numba, Triton or any other optional package
	$(CORE)/bin/python $(PYTEST) $(IN_ANY_ORDER)

# Needs no .venv, because the torch of a machine with a GPU is built for its driver; but the core's other dependencies (POT and
# platformdirs are easily forgotten), those of training, pytest-xdist and hypothesis.
.PHONY: test-cuda
test-cuda:  ## the tests of everything that runs on a GPU, with the Python that PYTHON names
	PYTHONPATH=src:$$PYTHONPATH $(PYTHON) -m pytest --numprocesses auto --dist worksteal -p no:benchmark \
	  tests/kernels tests/ground/test_cuda.py tests/losses/test_as_cross_entropy.py tests/losses/test_dense_graphs.py tests/test_cuda.py \
	  tests/training/test_cuda.py tests/experiments/lab/test_many_cuda.py tests/transport/test_newton_gpu.py tests/transport/test_sinkhorn.py

# A failure prints the command that repeats its batch. A million calls take ten to thirty minutes on one core:
#   make fuzz CALLS=1000000 MINUTES=60 SEED=1
CALLS ?= 100000
MINUTES ?= 30
SEED ?= 0
.PHONY: fuzz
fuzz: $(READY)  ## random calls, checked against a reference: CALLS, MINUTES, SEED
	$(BIN)/python -m tests.fuzz --calls $(CALLS) --minutes $(MINUTES) --seed $(SEED)

.PHONY: slow
slow: $(READY)  ## run the tests that take minutes
	$(BIN)/python -m pip install -qq -c constraints.txt -e '.[slow]'
	$(BIN)/python -m pytest -m slow

# Needs no .venv: what counts is what a user gets. The oldest supported of everything, by hand, for it fetches gigabytes:
#   make smoke PYTHON=python3.10 SMOKE_CONSTRAINTS=constraints-oldest.txt
SMOKE_CONSTRAINTS ?= constraints.txt
SMOKE := build/smoke
.PHONY: smoke
smoke:  ## build the wheel, install it into an empty environment, and use it there
	rm -rf $(SMOKE)
	$(PYTHON) -m venv $(SMOKE)
	$(SMOKE)/bin/python -m pip wheel -qq --no-deps -w $(SMOKE)/wheel .
	$(SMOKE)/bin/python -m pip install -qq -c $(SMOKE_CONSTRAINTS) $(SMOKE)/wheel/*.whl
	$(SMOKE)/bin/python -I -W error tests/packaging/smoke.py core
	$(SMOKE)/bin/python -m pip install -qq -c $(SMOKE_CONSTRAINTS) "$$(echo $(SMOKE)/wheel/*.whl)[cli]"
	$(SMOKE)/bin/python -I -W error tests/packaging/smoke.py cli

# Tools go into an environment of their own; tests of the sdist run with what is in .venv.
.PHONY: release-check
release-check: $(READY)  ## build wheel and sdist; check contents, metadata, licences, links and workflows
	$(BIN)/python scripts/release_check.py

.PHONY: check
check: $(READY)  ## formatting, lint, types, security
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy
	$(BIN)/bandit -q -r src

# Not part of check: it asks a service for known vulnerabilities, and needs the network. --strict, for without it a
# package that the service does not answer for counts as a safe one. A suffix like +cpu is no release it knows.
.PHONY: audit
audit: $(READY)  ## known vulnerabilities of what is installed; needs the network
	@mkdir -p build
	$(BIN)/python -m pip freeze --exclude-editable | sed 's/+.*//' > build/audit.txt
	@$(BIN)/pip-audit --strict --disable-pip --no-deps -r build/audit.txt || { \
	  echo "Not every package was found free of known vulnerabilities: the lines above say which has one, or that the"; \
	  echo "advisory service cannot be reached or does not answer for a package, in which case nothing is known."; exit 1; }

.PHONY: format
format: $(READY)  ## format the code and apply safe lint fixes
	$(BIN)/ruff check --fix-only
	$(BIN)/ruff format

.PHONY: docs
docs: $(READY)  ## build the documentation, gallery included, into build/docs
	$(BIN)/python -m pip install -qq -c constraints.txt -e '.[docs]'
	OMP_WAIT_POLICY=passive $(BIN)/python -m sphinx -W -E --keep-going -q -d build/doctrees docs build/docs
	$(BIN)/python docs/check_links.py build/docs
	@echo "Open build/docs/index.html"

.PHONY: reproduce
reproduce: $(READY)  ## compute the paper's results again, into results/: minutes; experiments/README.md says more
	OMP_WAIT_POLICY=passive $(BIN)/python -m experiments

.PHONY: bench
bench: $(READY)  ## compare speed with POT, GeomLoss and OTT: docs/benchmarks
	$(BIN)/python -m pip install -qq -c constraints.txt -e '.[bench]'
	$(BIN)/python benchmarks/run.py --suite quick
	$(BIN)/python benchmarks/plots.py docs/benchmarks/cpu.json

.PHONY: clean
clean:  ## remove .venv, caches and build products
	rm -rf $(VENV) $(CORE) build dist docs/gallery docs/sg_execution_times.rst .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -prune -exec rm -rf {} +

# One pip command for the package and the pinned torch: two would fetch torch twice.
$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10) and "wassloss needs Python 3.10 or newer, but $(PYTHON) is %d.%d; try: make PYTHON=python3.11" % sys.version_info[:2])'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -qq -c constraints.txt -e '.[dev]'
	@touch $@

# Without Numba, for Pythons that it does not support yet: what runs there is also what it is tested against.
$(CORE)/.ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(CORE)
	$(CORE)/bin/python -m pip install -qq -c constraints.txt -e '.[pytest]'
	$(CORE)/bin/python -m pip uninstall -qq -y numba llvmlite
	@touch $@
