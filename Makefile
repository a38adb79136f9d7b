# `make help` lists the targets. Nothing has to be installed first but Python 3.11 or newer and make itself:
# each target builds what it needs of the private environment $(VENV), on first use and when pyproject.toml changes.

PYTHON ?= python3
VENV ?= .venv
PY := $(VENV)/bin/python
# uv trusts the certificates that pip trusts, such as those of a company's proxy.
export UV_SYSTEM_CERTS ?= 1
# The tests start hundreds of programs. Each would compile all that it imports, where bytecode is not written.
unexport PYTHONDONTWRITEBYTECODE
# ASYNC109: `timeout=` is part of the public API. ASYNC910 to 912: on the hot paths not every call is a checkpoint.
ASYNC_IGNORED := ASYNC109,ASYNC910,ASYNC911,ASYNC912
# What the linters read: all Python of ours that there is.
CODE := $(wildcard trio_stomp tests examples scripts benchmarks docs/conf.py docs/_extensions .ci/summary.py)

.DEFAULT_GOAL := help
# One environment is built in place, and one output is easier to read than two at a time.
.NOTPARALLEL:
.PHONY: help demo example pipeline test check ruff flake8-async mypy pyright imports workflows format docs interop bench clean \
    test-all coverage mutants peers simulate chaos soak spark-soak pythons lowest lock release

help:  ## list the targets
	@echo "Every day:"
	@awk -F ':[^#]*## ' '/^[a-z-]+:[^#]*## / { printf "  make %-11s%s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo "Before a release, or when something deep has changed:"
	@awk -F ':[^#]*### ' '/^[a-z-]+:[^#]*### / { printf "  make %-11s%s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(VENV)/.stamp-demo  ## send and receive real flight data; URL=stomp://... picks a broker, ALL=1 sends every row
	@$(PY) examples/flights_demo.py $(if $(URL),--url "$(URL)") $(if $(ALL),--all)

example: $(VENV)/.stamp-examples  ## run one of the small examples (NAME=fan_out; URL=stomp://... picks a broker)
	@$(PY) examples/$(or $(NAME),request_reply)$(if $(wildcard examples/$(NAME)/__main__.py),,.py) $(if $(URL),--url "$(URL)")

pipeline: $(VENV)/.stamp-pipeline  ## a year of flights through Spark (URL=, CHAOS=1, MASTER=, RECEIVERS=n, KILL_EXECUTOR=1, ROWS=n)
	@$(PY) examples/flights_pipeline.py $(if $(URL),--url "$(URL)") $(if $(CHAOS),--chaos) \
	    $(if $(MASTER),--master "$(MASTER)") $(if $(KILL_EXECUTOR),--kill-executor) \
	    $(if $(RECEIVERS),--receivers $(RECEIVERS)) $(if $(ROWS),--rows $(ROWS))

# Each worker collects all tests, so more than four of them help little. With one more than there are cores, one works
# while another waits for a program that its test has started.
ONE_MORE = $(shell $(PYTHON) -c 'import os; print(min(4, (os.cpu_count() or 1) + 1))')
test: $(VENV)/.stamp-test  ## run the tests that need no broker and no Java (ARGS="..." goes to pytest)
	@$(PY) -m pytest -m "not slow and not interop" -n $(ONE_MORE) --dist worksteal $(ARGS)

check: $(filter-out $(WITHOUT),ruff flake8-async mypy pyright imports workflows)  ## run all linters and type checkers (-k: go on after one that fails)

ruff: $(VENV)/.stamp-check
	@echo "ruff"
	@$(PY) -m ruff check --quiet --output-format concise $(CODE)
	@$(PY) -m ruff format --quiet --diff $(CODE)

flake8-async: $(VENV)/.stamp-check
	@echo "flake8-async"
	@grep -rlw --include='*.py' async $(CODE) | xargs -n 16 -P 4 $(PY) -m flake8_async --disable $(ASYNC_IGNORED) --transform-async-generator-decorators async_context,sync_context

mypy: $(VENV)/.stamp-check
	@echo "mypy --strict"
	@$(PY) -m mypy --no-error-summary $(CODE)

pyright: $(VENV)/.stamp-check
	@echo "pyright, strict"
	@$(PY) -m pyright --pythonpath $(PY) $(CODE)

imports: $(VENV)/.stamp-check
	@echo "import-linter"
	@$(VENV)/bin/lint-imports --no-logo

workflows: $(VENV)/.stamp-check
	@echo "zizmor"
	@$(VENV)/bin/zizmor --quiet --offline --no-progress .github

format: $(VENV)/.stamp-check  ## rewrite the code with ruff
	@$(PY) -m ruff check --fix --quiet $(CODE)
	@$(PY) -m ruff format --quiet $(CODE)

docs: $(VENV)/.stamp-check  ## build the manual into docs/_build/html
	@$(PY) -m sphinx --nitpicky --fail-on-warning --keep-going --quiet -b html docs docs/_build/html
	@echo "docs/_build/html/index.html"

interop: $(VENV)/.stamp-test  ## start the real brokers and run the tests that talk to them
	@scripts/brokers start
	@TRIO_STOMP_REQUIRE_BROKERS=1 $(PY) -m pytest tests/interop -n 2 --dist worksteal $(ARGS)

# An environment of its own, with the clients that it is compared with; stompit only where there is npm.
bench: BENCH := .venv-bench
bench:  ## time this client next to others, into docs/performance.md (ARGS="--quick", "--only codec,receive", ...)
	@$(MAKE) --no-print-directory VENV=$(BENCH) $(BENCH)/.stamp-bench
	@if command -v npm >/dev/null && ! [ -d $(BENCH)/node_modules/stompit ]; then \
	    npm install --silent --no-audit --no-fund --no-save --prefix $(BENCH) stompit@1 || echo "npm could not install stompit" >&2; fi
	@$(BENCH)/bin/python -m benchmarks $(ARGS)

clean:  ## remove what was built; the environment and the brokers stay
	@rm -rf dist build docs/_build .coverage .coverage.* htmlcov .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	@find $(CODE) -name __pycache__ -type d -prune -exec rm -rf {} +

test-all: $(VENV)/.stamp-test $(VENV)/.stamp-release  ### run every test that needs no broker, the slow ones and Spark's too
	@$(PY) -m pytest -m "not interop" $(ARGS)

peers: $(VENV)/.stamp-test  ### run another client's own tests against the embedded broker, and RabbitMQ where it runs
	@$(PY) scripts/peer_suites.py $(ARGS)

mutants: $(VENV)/.stamp-test  ### change the code in small ways, and see that a test fails (ARGS="--seed N --count N --modules cli")
	@$(PY) scripts/mutants.py $(ARGS)

simulate: $(VENV)/.stamp-test  ### simulate client, network and broker by seeds (SEEDS=n FIRST=n SECONDS=n; SEED=n again; LOOP=asyncio; PLANTED=1 proves it)
	@$(PY) -m tests.simulation $(if $(SEED),--seed $(SEED)) $(if $(SEEDS),--seeds $(SEEDS)) $(if $(FIRST),--first $(FIRST)) \
	    $(if $(SECONDS),--seconds $(SECONDS)) $(if $(LOOP),--loop $(LOOP)) $(if $(PLANTED),--planted)

chaos: $(VENV)/.stamp-test  ### break private brokers while messages move, for two minutes (TRIO_STOMP_CHAOS_SEED=n: other faults)
	@TRIO_STOMP_CHAOS=1 $(PY) -m pytest tests/chaos -o faulthandler_timeout=900 $(ARGS)

soak: $(VENV)/.stamp-test  ### the same with a million messages, into docs/reliability.md (ARGS="--messages N --faults N --seed N rabbitmq")
	@$(PY) -m tests.chaos.soak $(ARGS)

spark-soak: $(VENV)/.stamp-test  ### a million messages through Spark with a hundred random kills (ARGS="--messages N --kills N --spool s3 artemis")
	@PYTHONPATH="$(CURDIR)/examples" $(PY) -m tests.crashes.soak $(ARGS)

# coverage.py begins in each process that has this variable: see what_coverage_measures() in tests/conftest.py.
# One session of Spark at a time uses all cores already.
coverage: MEASURED := COVERAGE_PROCESS_START="$(CURDIR)/pyproject.toml"
coverage: $(VENV)/.stamp-test  ### run the fast tests and Spark's, measure branch coverage, fail under the floor in pyproject.toml
	@$(PY) -m coverage erase
	@$(MEASURED) $(PY) -m pytest -m "not slow and not interop" -n auto --maxprocesses 4 --dist worksteal $(ARGS)
	@$(MEASURED) $(PY) -m pytest -m "spark and not interop" --ignore=tests/crashes $(ARGS)
	@$(PY) -m coverage combine --quiet
	@$(PY) -m coverage report --skip-covered --show-missing

pythons:  ### run the fast tests on the other supported versions of Python that are installed, in .venv-3.12 and so on
	@scripts/pythons

# The interpreter is that of the operating system, if it has one: it has faults that later patch releases mend.
CORE := $(addprefix tests/,protocol conformance brokers client blocking testing cli otel test_errors.py)
lowest: UV := $(PY) -m uv
lowest: $(VENV)/.stamp-release  ### run the core tests on Python 3.11, with the oldest dependencies that pyproject.toml allows
	@$(UV) venv --quiet --clear --python $(or $(wildcard /usr/bin/python3.11),3.11) .venv-lowest
	@$(UV) pip install --quiet --resolution lowest-direct --python .venv-lowest \
	    --editable ".[websocket,proxy,otel,cli,spool]" --group test-core
	@$(UV) pip list --quiet --python .venv-lowest
	@.venv-lowest/bin/python -m pytest -q -m "not slow and not interop" -p no:cacheprovider $(CORE) $(ARGS)

lock: $(VENV)/.stamp-release  ### pin what development needs, with hashes, in requirements-dev.txt
	@$(PY) -m uv pip compile pyproject.toml --group dev --all-extras --universal --generate-hashes --python-version 3.11 \
	    --no-header --quiet --output-file requirements-dev.txt >/dev/null

release: $(VENV)/.stamp-release  ### build and check the archives of a release in dist/
	@PYTHON=$(PY) scripts/release $(ARGS)

# A stamp says that a dependency group is installed; groups that include others set their stamps too.
$(VENV)/.stamp-%: pyproject.toml scripts/bootstrap.py
	@command -v $(PYTHON) >/dev/null || { echo "There is no '$(PYTHON)' here. trio-stomp needs Python 3.11 or newer." >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	    echo "trio-stomp needs Python 3.11 or newer; '$(PYTHON)' is $$($(PYTHON) --version 2>&1)." >&2; \
	    echo "Name another one: make PYTHON=/path/to/python3.12 $(MAKECMDGOALS)" >&2; exit 1; }
	@$(PYTHON) scripts/bootstrap.py --venv $(VENV) $*
