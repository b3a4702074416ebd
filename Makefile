# Every target sets itself up: a fresh machine needs Python 3.11 or newer, make, and nothing else.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check --no-input
BUDGET ?= 480
# Not what is planned from whole fits, what is drawn and what lies on the disk: long, and alike everywhere.
NUMERICAL := $(addprefix tests/,loops kernels matrices features solvers streaming selection uncertainty \
  test_losses.py test_penalties.py estimators/test_persistence.py) $(addprefix --ignore=tests/,selection/test_planning.py \
  features/test_pictures.py loops/test_compile.py loops/test_atomics.py)
WHEEL := .environments/wheel
BENCHES ?= $(sort $(wildcard benchmarks/micro/[a-z]*.py))

.DEFAULT_GOAL := help
.PHONY: help demo test test-data test-cluster test-all test-avx2 test-generic test-lowest campaign lint format docs dist test-wheel bench claims versus papers papers-docs clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(VENV)/.demo ## Fit a first model and show what it does
	$(BIN)/gramless demo

# Whole files to each process: a fresh machine then compiles few loops twice.
test: $(VENV)/.dev ## Run the tests
	OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -n auto --dist loadfile

# Exit code 5 says that no test was collected: no fault where none is marked.
test-data: $(VENV)/.dev ## Run the slow tests and those on real data
	OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -n auto -m "slow or data" || [ $$? -eq 5 ]

test-cluster: $(VENV)/.dev ## Run the tests that kill workers of a cluster
	OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -m cluster

test-all: $(VENV)/.dev ## Run every test
	$(BIN)/python -m pytest -q -m ""

test-avx2: $(VENV)/.dev ## Run the numerical tests as a processor without AVX-512 would
test-generic: $(VENV)/.dev ## Run them as one with SSE2 alone would
test-avx2 test-generic: test-%:
	NUMBA_CACHE_DIR=$(CURDIR)/.environments/cache-$* OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 \
	  $(BIN)/python -m campaigns.processors $* \
	  $(BIN)/python -m pytest -q -n auto --dist loadfile $(NUMERICAL)

test-lowest: $(VENV)/.dev ## Try the lowest versions that pyproject.toml allows
	$(BIN)/python -m campaigns environments --case 3

campaign: $(VENV)/.dev ## Attack the library (NAME=all, SHORT=1 for as little as the tests run)
	$(BIN)/python -m campaigns $(or $(NAME),all) $(if $(SHORT),--short)

lint: $(VENV)/.dev ## Check style, types and the floors
	$(BIN)/python -m ruff check .
	$(BIN)/python -m ruff format --check .
	$(BIN)/python -m mypy
	$(BIN)/lint-imports

format: $(VENV)/.dev ## Put the code in its standard form
	$(BIN)/python -m ruff check --fix .
	$(BIN)/python -m ruff format .
	$(BIN)/python docs/list_files.py

# The programs of the gallery run one after the other, and are kept: only those that changed run again.
docs: $(VENV)/.docs ## Build the site into out/docs, with the gallery run, and check its links
	$(BIN)/python docs/list_files.py
	OPENBLAS_NUM_THREADS=1 $(BIN)/python -m sphinx -W --keep-going -q -b html docs out/docs
	$(BIN)/python docs/check_links.py out/docs

dist: $(VENV)/.release ## Build the wheel and the source archive, and check both
	rm -rf dist
	$(BIN)/python -m build --outdir dist
	$(BIN)/python -m twine check --strict dist/*
	$(BIN)/check-wheel-contents dist/*.whl
	$(BIN)/cffconvert --validate
	$(BIN)/python -m campaigns.release dist

# From the wheel's own environment: nothing of src is on its path, and types are those of py.typed.
test-wheel: dist ## Run the tests against the built wheel, in an environment of its own
	rm -rf $(WHEEL)
	$(PYTHON) -m venv $(WHEEL)
	$(WHEEL)/bin/python -m pip install --quiet --disable-pip-version-check --no-input "$$(ls $(CURDIR)/dist/*.whl)[cli,dev]"
	$(WHEEL)/bin/python -m mypy --strict --config-file= tests/typing/*.py
	$(WHEEL)/bin/python -m mypy --config-file= --ignore-missing-imports examples/*.py
	OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 $(WHEEL)/bin/python -m pytest -q -n auto --dist loadfile tests studies harness

bench: $(VENV)/.bench ## Time the loops (BENCHES="files" for others)
	@for file in $(BENCHES); do echo "== $$file"; $(BIN)/python $$file || exit 1; done

claims: $(VENV)/.bench ## Measure every table of docs/measured.md
	@for file in $(sort $(wildcard benchmarks/claims/[a-z]*.py)); do echo "== $$file"; $(BIN)/python $$file || exit 1; done

versus: $(VENV)/.bench ## Compare with other methods
	$(BIN)/python benchmarks/versus/run.py

papers: $(VENV)/.bench ## Run the papers' figures and tables again (BUDGET=minutes)
	$(BIN)/python -m studies all --budget $(BUDGET) --out out/papers

papers-docs: ## Copy the report of `make papers`, and its records, to the site
	rm -rf docs/papers
	mkdir -p docs/papers
	cp -r out/papers/*.md out/papers/*.csv out/papers/pictures out/papers/records docs/papers/

clean: ## Remove caches and builds, keep .venv
	rm -rf build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find src tests benchmarks studies harness campaigns -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/pip:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "gramless needs Python 3.11 or newer, and $(PYTHON) is missing or older." >&2; \
	  echo "Name another one: make PYTHON=python3.12" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.demo: pyproject.toml | $(BIN)/pip
	$(PIP) install -e ".[cli]"
	@touch $@

$(VENV)/.dev: pyproject.toml | $(BIN)/pip
	$(PIP) install -e ".[cli,dev]"
	@touch $@

$(VENV)/.docs: pyproject.toml | $(BIN)/pip
	$(PIP) install -e ".[cli,docs]"
	@touch $@

$(VENV)/.release: pyproject.toml | $(BIN)/pip
	$(PIP) install -e ".[release]"
	@touch $@

$(VENV)/.bench: pyproject.toml | $(BIN)/pip
	$(PIP) install -e ".[cli,bench]"
	@touch $@
