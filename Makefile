# The commands of this checkout. Each first makes .venv what requirements/lock.txt says.
PYTHON ?= python3
ARGS ?=
RUN = .venv/bin/python

.SILENT:
.PHONY: help ready demo test check model soak bench words lock clean

help:
	echo "make demo    the web application on this machine, to play with (Ctrl-C ends it)"
	echo "make test    every test, on SQLite and PostgreSQL, with a browser"
	echo "make check   every static check"
	echo "make model   the model of docs/proof.md, every state of it, with spin"
	echo "make soak    random lives of the database beside a provider, as many as you like: SOAK_STEPS=1000000"
	echo "make bench   measurements beside peers"
	echo "make words   the translations anew from the sources, compiled; lists what has none yet"
	echo "make lock    the files in requirements/ anew from pyproject.toml (needs uv)"
	echo "make clean   removes .venv and caches; the demo's data stays"
	echo "More words for a command: make test ARGS='-k gate'. Another Python: make test PYTHON=python3.13"

ready:
	command -v $(PYTHON) >/dev/null || { echo "There is no $(PYTHON) here. Install Python 3.11 or newer." >&2; exit 1; }
	$(PYTHON) requirements/bootstrap.py

demo: ready
	exec $(RUN) manage.py demo $(ARGS)

test: ready
	exec $(RUN) -m tests.everything $(ARGS)

check: ready
	.venv/bin/ruff check
	.venv/bin/ruff format --check
	.venv/bin/mypy
	.venv/bin/lint-imports
	$(RUN) manage.py check --fail-level WARNING
	$(RUN) manage.py makemigrations --check --dry-run

model: ready
	exec $(RUN) -m tests.model.explore --long $(ARGS)

soak: ready
	SOAK_SEED=$${SOAK_SEED:-$$(date +%s)} SOAK_STEPS=$${SOAK_STEPS:-200000} exec $(RUN) -m tests.everything -s tests/soak/test_soak.py $(ARGS)

# The peers are no part of .venv until they are measured beside; without them the rest is measured all the same.
bench: ready
	$(RUN) -m pip --disable-pip-version-check --no-input install --quiet --require-hashes --requirement requirements/bench.txt \
		|| echo "The peers could not be installed." >&2
	exec $(RUN) -m bench $(ARGS)

words: ready
	exec $(RUN) -m tests.wording.catalogues

lock:
	command -v uv >/dev/null || { echo "make lock needs uv: pip install uv" >&2; exit 1; }
	uv pip compile pyproject.toml --extra website --extra celery --extra django-tasks --extra telemetry --group dev --universal --python-version 3.11 --generate-hashes \
		--upgrade --no-emit-index-url --no-header --no-annotate --quiet --output-file requirements/lock.txt
	uv pip compile --group bench --constraint requirements/lock.txt --universal --python-version 3.11 --generate-hashes \
		--upgrade --no-emit-index-url --no-header --no-annotate --quiet --output-file requirements/bench.txt

clean:
	rm -rf .venv .cache .coverage .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache build dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
