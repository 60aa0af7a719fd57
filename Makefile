# Two commands do everything from a clean clone: `make demo` and `make test`.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
# Tests start Python many hundred times: without compiled files they take half as long again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test soak check docs bench format clean

# Strict: a broken link, or a public name without a docstring, fails. Not quiet, which would hide these warnings from it,
# too. The variable hides that a later MkDocs will differ.
SITE := NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

demo: $(READY)
	$(BIN)/milepost demo

test: $(READY)
	$(BIN)/pytest $(PYTEST_ARGS)

# The tests that take minutes, or some of their parts: make soak SOAK="chaos cluster".
soak: $(READY)
	$(BIN)/python -m tests.soak $(SOAK)

check: $(READY)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(SITE)

# The documentation as a site, in ./site.
docs: $(READY)
	$(SITE)
	@echo 'Open site/index.html, or with the search: $(PYTHON) -m http.server --directory site'

bench: $(READY)
	$(BIN)/python -m benchmarks $(BENCH_ARGS)

format: $(READY)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:
	rm -rf .venv .peers site .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

# Made again only when what is to be installed has changed, so that a second run starts immediately.
$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Milepost needs Python 3.11 or newer; run: make PYTHON=/path/to/python3.11 $(MAKECMDGOALS)"; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check \
		--constraint constraints.txt --editable '.[embedded,archive,spark,connect,metrics,traces,ui,sqlalchemy,django,testing,docs,examples,dev]'
	@if [ -e .git ]; then git config core.hooksPath tools/hooks; fi
	@touch $(READY)
