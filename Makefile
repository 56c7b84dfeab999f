# Every door in one place. `make` alone lists them.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SCALE ?= 0.01

.PHONY: help setup setup-test demo test test-all guard torture check docs house dist bench sim scripts clean

help: ## list the commands
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-11s %s\n", $$1, $$2}'

setup: $(VENV)/.runtime ## install what running needs: a virtual environment, and Java 17 when none is found
	@sh tools/java.sh
	@$(MAKE) --no-print-directory $(VENV)/.classes
	@sh tools/progress.sh "compiling" $(BIN)/python -m compileall -q src # where Python may not write these, each process that starts compiles all again

setup-test: setup $(VENV)/.test ## install what the tests need besides: test libraries, sysbench, a mysql client
	@sh tools/clients.sh

$(VENV)/.venv:
	@sh tools/venv.sh "$(PYTHON)" "$(VENV)"
	@touch $@

$(VENV)/.runtime: $(VENV)/.venv requirements/build.txt requirements/runtime.txt pyproject.toml
	@echo "installing Spark and the libraries (0.5 GB to download, once)"
	@$(BIN)/python tools/install.py --require-hashes -r requirements/build.txt
	@$(BIN)/python tools/install.py --require-hashes -r requirements/runtime.txt
	@sh tools/progress.sh "installing Exuvia" $(BIN)/python -m pip install -q --no-deps --no-build-isolation -e .
	@touch $@

$(VENV)/.classes: $(VENV)/.runtime
	@sh tools/progress.sh --optional "Spark works without it and starts more slowly; make it later: $(BIN)/python -m exuvia.pipeline.class_archive" \
	  "archiving Spark's classes (half a minute, once)" $(BIN)/python -m exuvia.pipeline.class_archive
	@touch $@

$(VENV)/.test: $(VENV)/.runtime requirements/test.txt
	@echo "installing what the tests need"
	@$(BIN)/python tools/install.py --require-hashes -r requirements/test.txt
	@touch $@

demo: setup ## a live TPC-H table gets two indexes, one on Spark, and a column while clients write (SCALE=0.1: 600,000 rows; DEMO=--keep leaves it up)
	@$(BIN)/exuvia demo --scale $(SCALE) $(DEMO)

test: setup-test ## one short path through each thing: about 11 minutes on 2 cores
	@$(BIN)/python tools/run_tests.py "not long and not torture" $(TESTS)

test-all: setup-test ## everything but torture: about an hour on 2 cores
	@$(BIN)/python tools/run_tests.py "not torture" $(TESTS)

guard: setup-test ## plant the faults of tests/guard/faults.toml, which `make test` must find: make guard FAULTS=epoch
	@$(BIN)/python tools/guard.py $(FAULTS)

torture: setup-test ## search for faults by seed, 10 minutes: make torture SEED=7 TORTURE_S=7200 for two hours
	@SEED=$(or $(SEED),1) TORTURE_S=$(or $(TORTURE_S),600) $(BIN)/python -m pytest -m torture -s -rs $(TESTS)

check: setup-test ## format, lint, types, layers, documentation
	@$(BIN)/ruff format --check src tests bench
	@$(BIN)/ruff check src tests bench
	@$(BIN)/mypy
	@$(BIN)/lint-imports
	@$(MAKE) --no-print-directory docs
	@$(MAKE) --no-print-directory house

docs: setup-test ## the documentation as a site, in build/site; a warning is an error
	@$(BIN)/python -m sphinx -q -W --keep-going docs build/site && echo "the site is at build/site/index.html"

house: ## the house in numbers: files, functions, circles, names that stand twice
	@$(PYTHON) tools/house.py

dist: setup ## a wheel and an sdist, in dist/
	@sh tools/dist.sh $(BIN)/python dist

bench: setup-test ## the figures beside MariaDB and PostgreSQL where they are installed: make bench BENCH=--quick
	@$(BIN)/python -m bench.report --fresh $(BENCH)
	@$(BIN)/python -m bench.growth $(GROWTH)

sim: setup-test ## simulate clusters by seed: make sim SEEDS=100000
	@$(BIN)/python -m exuvia.cli.main sim --seeds $(or $(SEEDS),20000)

scripts: setup-test ## every action under every accident with a statement at every step: make scripts SEED=2
	@SCRIPTS=all SEED=$(or $(SEED),1) $(BIN)/python -m pytest -q -s tests/scripts/test_statements_under_accidents.py

clean: ## remove what was built
	@rm -rf $(VENV) build dist *.egg-info src/*.egg-info
