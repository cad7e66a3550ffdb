# Every target installs what it needs: a fresh clone requires only Python 3.10+ and make.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
INSTALL = $(BIN)/python -m pip install --quiet --upgrade-strategy only-if-needed -c constraints.txt
# Marker files: dependencies of albert, and those of tests, checks and benchmarks.
RUN    := $(VENV)/.installed
DEV    := $(VENV)/.installed-dev

.PHONY: help setup test test-all check format api bench quickstart clean

help:
	@echo "make quickstart   pretrain and fine-tune in about ten minutes; writes quickstart/report.html"
	@echo "make test         run the tests of every commit"
	@echo "make test-all     run all tests, including the slow ones"
	@echo "make check        run ruff and mypy"
	@echo "make format       apply ruff's fixes and formatting"
	@echo "make api          write docs/api.md, the Python reference, from the docstrings"
	@echo "make bench        run the benchmarks; writes docs/benchmarks.md"
	@echo "make setup        create .venv with the pinned versions"
	@echo "make clean        remove .venv, builds and caches"

setup: $(DEV)

$(RUN): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10) and "albert needs Python 3.10 or newer, found %s. Choose another with make PYTHON=python3.12" % sys.version.split()[0])'
	$(PYTHON) -m venv $(VENV)
	@echo "installing the pinned packages into $(VENV); the default build of torch on Linux downloads gigabytes"
	$(INSTALL) -e .
	@touch $(RUN)

$(DEV): $(RUN)
	@echo "installing the packages for development"
	$(INSTALL) -e '.[dev]'
	@touch $(DEV)

# Two test files in parallel with one thread each, then the tests that measure time.
PARALLEL_TESTS := OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist loadfile

test: $(DEV)
	$(PARALLEL_TESTS) -m 'not slow and not alone'
	$(BIN)/python -m pytest -m 'not slow and alone'

test-all: $(DEV)
	$(PARALLEL_TESTS) -m 'not alone'
	$(BIN)/python -m pytest -m alone

check: $(DEV)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(DEV)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

api: $(DEV)
	$(BIN)/python docs/make_api.py

bench: $(DEV)
	$(BIN)/python -m bench

quickstart: $(RUN)
	$(BIN)/albert quickstart

clean:
	rm -rf $(VENV) build dist src/*.egg-info .pytest_cache .ruff_cache .mypy_cache
