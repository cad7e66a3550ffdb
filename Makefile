# Every target sets itself up: a fresh clone needs only Python 3.10+ and make.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
INSTALL = $(BIN)/python -m pip install --quiet --upgrade-strategy only-if-needed -c constraints.txt
# What albert needs to run, and what the tests, the checks and the benchmarks need besides.
RUN    := $(VENV)/.installed
DEV    := $(VENV)/.installed-dev

.PHONY: help setup test test-all check format api bench quickstart clean

help:
	@echo "make quickstart   pretrain, interrupt, resume and fine-tune in about ten minutes; quickstart/report.html"
	@echo "make test         the tests of every commit"
	@echo "make test-all     those, and the ones too long for every commit"
	@echo "make check        ruff and mypy"
	@echo "make api          docs/api.md, the Python reference, from the docstrings"
	@echo "make bench        side by side with the alternatives; writes docs/benchmarks.md"
	@echo "make setup        only the .venv with the pinned versions"

setup: $(DEV)

$(RUN): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10) and "albert needs Python 3.10 or newer; this is %s: make PYTHON=python3.12" % sys.version.split()[0])'
	$(PYTHON) -m venv $(VENV)
	@echo "installing the pinned packages into $(VENV): minutes with the CPU build of torch, gigabytes with the usual one"
	$(INSTALL) -e .
	@touch $(RUN)

$(DEV): $(RUN)
	@echo "installing what the tests need besides"
	$(INSTALL) -e '.[dev]'
	@touch $(DEV)

# Two files at a time, one thread each: most tests start processes and wait for them. Then what looks at the clock.
SIDE_BY_SIDE := OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist loadfile

test: $(DEV)
	$(SIDE_BY_SIDE) -m 'not slow and not alone'
	$(BIN)/python -m pytest -m 'not slow and alone'

test-all: $(DEV)
	$(SIDE_BY_SIDE) -m 'not alone'
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
