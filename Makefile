# A fresh machine needs Python 3.11 or newer (with venv and pip) and make, nothing else.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# A stamp is newer than what it was made from, so a second run installs nothing.
DEMO_STAMP := $(VENV)/.installed-embedded
DEV_STAMP := $(VENV)/.installed-dev
PIP := $(BIN)/python -m pip --disable-pip-version-check
# The versions that were tested; `make CONSTRAINTS=/dev/null` takes the newest ones.
CONSTRAINTS := packaging/constraints.txt
DECLARED := VERSION setup.cfg pyproject.toml $(CONSTRAINTS) \
	laboratory/setup.cfg laboratory/setup.py laboratory/pyproject.toml
PYTEST_ARGS ?=
SCREENSHOTS_ARGS ?=
MATRIX ?=
SITE ?= build/site
PYTEST := $(BIN)/python -m pytest
RUFF = $(BIN)/ruff check . && $(BIN)/ruff format --check .
# Packages and tests of packages that nothing here imports, half of all: their byte code is not made.
UNUSED := /(sympy|networkx|mpmath|cfnlint|graphql|mypy|mypyc|tests)/|/twisted/.*/test/
UNUSED := $(UNUSED)|/moto/(?!core/|s3/|moto_api/|utilities/)[^/]+/

.DEFAULT_GOAL := help
.PHONY: help demo test test-all test-fast coverage matrix lint compiled docs links dist screenshots clean

help:
	@echo "make demo    install into $(VENV) and run txqueue demo on an embedded PostgreSQL"
	@echo "make example-twisted (-fastapi, -django, -calendar, ...)  one of the applications in examples/"
	@echo "make test    install into $(VENV), lint, and test what each commit must prove (PYTEST_ARGS: only these)"
	@echo "make test-all  the same with every test"
	@echo "make test-fast  lint and the unit tests: the inner loop"
	@echo "make coverage  the lines that the tests run, without those of many processes"
	@echo "make matrix  the core tests with other Pythons, servers and packages"
	@echo "make lint    ruff and mypy only"
	@echo "make docs    the documentation as a site, in build/site (SITE=... another folder)"
	@echo "make links   ask the web for the links of the documentation that lead outside"
	@echo "make dist    what is uploaded of a release, built twice and checked, in dist"
	@echo "make screenshots  pictures of the dashboard into build/screenshots (needs chromium)"
	@echo "make clean   remove $(VENV) and everything that was built"
	@echo "PYTHON=...   the Python that makes $(VENV) (now: $(PYTHON))"

demo: $(DEMO_STAMP)
	$(BIN)/txqueue demo

# Four runs go on beside each other: those of many processes wait much, and go before the one of the
# database, which mostly computes. With arguments of your own all tests run one by one.
run = $(PYTEST) $(CHOICE) -o hang_report=.hangs-$(1).log $(2) > .$(1).log 2>&1
parts_leg = (ended=0; for part in faults unit docs packaging; do \
	$(call run,$$part,tests/$$part) || ended=1; done; exit $$ended)

test: CHOICE := --each-commit
ifeq ($(strip $(PYTEST_ARGS)),)
test test-all: compiled
	$(RUFF)
	@rm -f .hangs-*.log; \
	$(call run,nodes,tests/cluster/test_[a-o]*.py) & nodes=$$!; \
	$(call run,more-nodes,tests/cluster/test_[p-z]*.py) & more=$$!; \
	$(parts_leg) & parts=$$!; \
	nice -n 10 $(BIN)/mypy > .types.log 2>&1 & types=$$!; failed=0; \
	nice -n 5 $(PYTEST) $(CHOICE) -o hang_report=.hangs-others.log \
		tests $(addprefix --ignore=tests/,cluster faults unit docs packaging) || failed=1; \
	wait $$nodes || failed=1; wait $$more || failed=1; wait $$parts || failed=1; \
	for part in nodes more-nodes faults unit docs packaging; do cat .$$part.log; rm -f .$$part.log; done; \
	for log in .hangs-*.log; do ! grep -q '^Timeout' $$log || grep -v site-packages $$log; done; \
	wait $$types || failed=1; cat .types.log; rm -f .hangs-*.log .types.log; exit $$failed
else
test test-all: lint
	$(PYTEST) $(PYTEST_ARGS)
endif

# Apart from `make test`: measuring doubles what a test costs in this process.
coverage: $(DEV_STAMP)
	$(PYTEST) --cov --cov-report=term tests $(addprefix --ignore=tests/,cluster docs faults) $(PYTEST_ARGS)

test-fast: lint
	$(PYTEST) --quiet tests/unit tests/docs/test_reference.py tests/docs/test_links.py

lint: $(DEV_STAMP)
	$(RUFF)
	$(BIN)/mypy
	@find txqueue laboratory tests benchmarks -name '*.py' | xargs wc -l | \
		awk '$$1 > 450 && $$2 != "total" {print "a long file, to look at: " $$2 " (" $$1 " lines)"}'

# The tests start some thousand processes. Where Python may write no byte code, each would compile
# the package again.
compiled: $(DEV_STAMP)
	$(BIN)/python -m compileall -q txqueue laboratory tests twisted

# With MATRIX="py3.13-pg17-pinned ..." only these.
matrix: $(DEV_STAMP)
	$(BIN)/python -m tests.matrix $(MATRIX)

# Fails on a warning and on a dead link.
docs: $(DEV_STAMP)
	$(BIN)/python docs/build_site.py $(SITE)

# Needs the network, so that no other target depends on it.
links: $(DEV_STAMP)
	$(BIN)/python -m docs.check_links

# Fails unless two builds have the same bytes, and each Python here installs and runs them.
dist: $(DEV_STAMP)
	$(BIN)/python -m tests.release

# SCREENSHOTS_ARGS=--docs also writes those that the documentation shows.
screenshots: $(DEV_STAMP)
	$(BIN)/python docs/take_screenshots.py $(SCREENSHOTS_ARGS)

clean:
	rm -rf $(VENV) build dist *.egg-info laboratory/build laboratory/*.egg-info .coverage .coverage.* htmlcov
	rm -rf .hypothesis .mypy_cache .pytest_cache .ruff_cache

# NAME is that of an example: see `python -m examples` and examples/README.md.
example-%: $(DEV_STAMP)
	$(BIN)/python -m examples $*

# Half an environment is worse than none: `python3 -m venv` leaves one where ensurepip is missing.
$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	    { echo "txqueue needs Python 3.11 or newer; try: make PYTHON=python3.11" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV) || \
	    { rm -rf $(VENV); echo "no venv: try: apt-get install python3-venv" >&2; exit 1; }

$(DEMO_STAMP): $(DECLARED) | $(BIN)/python
	$(PIP) install --quiet --constraint $(CONSTRAINTS) --editable '.[embedded]' --editable laboratory
	@touch $@

# What builds is installed once, and not for each of the two that are built.
$(DEV_STAMP): $(DECLARED) | $(BIN)/python
	$(PIP) install --quiet --no-compile --constraint $(CONSTRAINTS) 'setuptools>=77' wheel
	$(PIP) install --quiet --no-compile --constraint $(CONSTRAINTS) --no-build-isolation \
		--editable '.[dev]' --editable laboratory
	$(BIN)/python -m compileall -qq -j 0 -x '$(UNUSED)' $(VENV)/lib
	@touch $@ $(DEMO_STAMP)
