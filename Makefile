# The words of this project; `make` alone lists them.
#
# Everything lives in .venv, which is made on first use with any Python from 3.11 on
# (PYTHON=/path/to/python3 chooses one) and brought up to date whenever pyproject.toml changes.
# ARGS="..." is handed on to what a word runs.

.DEFAULT_GOAL := help
.PHONY: help run test check fmt bench sim prove pictures

VENV := .venv
# Every process would compile what it imports where the shell forbids to keep it: servers that tests start, too.
export PYTHONDONTWRITEBYTECODE :=
export PYTHONPYCACHEPREFIX := $(CURDIR)/$(VENV)/bytecode
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
CANDIDATES := $(PYTHON) python3 python3.14 python3.13 python3.12 python3.11 python
NEW_ENOUGH := import sys; sys.exit(sys.version_info < (3, 11))
DEV_GROUP := import tomllib; project = tomllib.load(open("pyproject.toml", "rb")); \
	print(*project["dependency-groups"]["dev"], sep="\n")

help: ## list these words
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' Makefile

run: $(VENV)/installed ## start a server (ARGS="--data DIR ..." as for 'franca serve')
	@exec $(BIN)/franca serve --log-format console $(ARGS)

test: $(VENV)/developing ## run the tests, several at a time: many of them wait for others
	@command -v npm >/dev/null || echo "npm is not here: neither the Node clients nor the dashboard in a browser will be tested"
	@command -v chromium >/dev/null || echo "chromium is not here: the dashboard will not be tested in a browser"
	$(BIN)/python -m pytest -n 6 --dist loadscope $(ARGS)

check: $(VENV)/developing ## format, lint, strict types and tidiness, within half a minute
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python -m pytest tests/tidy

fmt: $(VENV)/developing ## format the code and mend what can be mended
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(VENV)/developing ## measure speed (ARGS=gearman, memodb, eventmq or beanstalkd: beside theirs; ARGS="against COMMIT")
	$(BIN)/python -m bench $(ARGS)

sim: $(VENV)/developing ## simulate: SEED=17 replays one world, SEEDS=1000 hunts
	$(BIN)/python -m tests.prove sim --seed $(or $(SEED),0) --seeds $(or $(SEEDS),$(if $(SEED),1,100)) $(ARGS)

prove: $(VENV)/developing ## prove what the promises say, in minutes (SHORT=1: fewer; NAME=kill9: one; NAME=fuzz SECONDS=600; NAME=cases AGAINST=COMMIT)
	$(BIN)/python -m tests.prove $(or $(NAME),all) $(if $(SHORT),--short) $(if $(SECONDS),--seconds $(SECONDS)) $(if $(AGAINST),--against $(AGAINST)) $(ARGS)

pictures: $(VENV)/developing ## take README's pictures anew, of a server that works for some minutes
	$(BIN)/python -m tests.browser.readme $(ARGS)

# -- the environment -----------------------------------------------------------------------------

$(BIN)/python:
	@for python in $(CANDIDATES); do \
		if command -v $$python >/dev/null && $$python -c '$(NEW_ENOUGH)' 2>/dev/null; then \
			echo "making $(VENV) with $$($$python --version)"; \
			$$python -m venv $(VENV) && exit 0; \
			rm -rf $(VENV); \
			echo "its venv module does not work (Debian: apt install python3-venv)" >&2; \
			exit 1; \
		fi; \
	done; \
	echo "Python 3.11 or newer is needed and was not found: make PYTHON=/path/to/python3" >&2; \
	exit 1

$(VENV)/installed: pyproject.toml | $(BIN)/python
	@echo "installing franca into $(VENV)"
	@$(PIP) install --editable .
	@touch $@

# The list is read with Python because pip knows dependency groups only since version 25.
$(VENV)/developing: $(VENV)/installed
	@echo "installing what development needs into $(VENV)"
	@$(BIN)/python -c '$(DEV_GROUP)' > $(VENV)/dev.txt
	@$(PIP) install --requirement $(VENV)/dev.txt
	@touch $@
