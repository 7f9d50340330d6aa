# A fresh Debian needs: Rust 1.89 or later, Python 3.10 or later with python3-venv, a C compiler, make.
#
# There is one cargo profile, and every command names the whole workspace: the features of shared dependencies are
# then resolved alike, and the command, the tests and the Python module share what is compiled.

PYTHON ?= python3
VENV := .venv
VENV_PYTHON := $(VENV)/bin/python
TARGET := $(or $(CARGO_TARGET_DIR),target)

# Stamps: set-up is done once, and again only when what it was made from has changed.
TOOLS := $(VENV)/.tools
PEERS := $(VENV)/.peers
MODULE := $(VENV)/.module

SOURCES := Cargo.toml Cargo.lock pyproject.toml \
	$(shell find crates -not -path '*/examples*' -not -path '*/tests*' -not -path '*/proptest-regressions*')
PYTHON_CODE := python tests/python benchmarks docs/check-order

export VIRTUAL_ENV := $(CURDIR)/$(VENV)
unexport CONDA_PREFIX PYTHONPATH PYTHONHOME

.PHONY: help demo test lint bench bench-kernels

help:
	@echo 'make demo           build the riesz command; fit, predict and draw into demo/'
	@echo 'make test           all tests, Rust and Python'
	@echo 'make lint           formatting, lints, types, documentation, the order of modules'
	@echo 'make bench          riesz beside its peers; BENCH="--only mnist --repeats 1" narrows it'
	@echo 'make bench-kernels  the inner loops against the peak of one core'

demo:
	cargo build --release --workspace --bin riesz
	$(TARGET)/release/riesz demo --out demo

# riesz-python has no Rust tests of its own: it is tested from Python.
test: $(MODULE)
	cargo test --release --workspace
	$(VENV_PYTHON) -m pytest
	PATH="$(CURDIR)/$(VENV)/bin:$$PATH" docs/execute README.md python
	PATH="$(CURDIR)/$(VENV)/bin:$$PATH" docs/execute docs/tutorial.md python sh
	PATH="$(CURDIR)/$(VENV)/bin:$$PATH" docs/execute docs/environments.md python

# Only libraries are documented: the library riesz and the command riesz would write to the same folder.
lint: export PYO3_PYTHON := $(CURDIR)/$(VENV_PYTHON)
lint: $(TOOLS)
	cargo fmt --all --check
	cargo clippy --release --workspace --all-targets -- -D warnings
	RUSTDOCFLAGS='-D warnings' cargo doc --release --workspace --no-deps --lib
	$(VENV)/bin/ruff check $(PYTHON_CODE)
	$(VENV)/bin/ruff format --check $(PYTHON_CODE)
	$(VENV)/bin/mypy
	$(VENV_PYTHON) docs/check-order

bench: $(MODULE) $(PEERS)
	$(VENV_PYTHON) benchmarks/functions/run.py $(BENCH)

bench-kernels:
	cargo build --release --workspace --example hot_kernels
	$(TARGET)/release/examples/hot_kernels

$(TOOLS): Makefile
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10) and "riesz needs Python 3.10 or later")'
	$(PYTHON) -m venv $(VENV)
	$(VENV_PYTHON) -m pip install --quiet maturin numpy scipy scikit-learn pandas polars pyarrow gymnasium river pytest ruff mypy
	@touch $@

$(PEERS): benchmarks/functions/requirements.txt $(TOOLS)
	$(VENV_PYTHON) -m pip install --quiet --requirement $<
	@touch $@

# Installed in place: python/riesz is imported from here, the compiled module is put beside it.
$(MODULE): $(SOURCES) $(TOOLS)
	$(VENV)/bin/maturin develop --release
	@touch $@
