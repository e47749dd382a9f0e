# Everything here runs without root, in .venv, from the tested set in constraints.txt.
# The tested Python first; every other one from 3.11 on will do.
PYTHON ?= $(or $(shell for p in python3.11 python3 python3.12 python3.13 python3.14; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done),python3)
BIN := .venv/bin
FAST := not slow and not browser and not crash and not gpu

# PyPI's torch for Linux brings gigabytes of CUDA. Without an NVIDIA GPU take the CPU build from torch's index, but
# only if it answers in 5 s: pip retries a dead one 8 s a package. TORCH_INDEX= (empty) or another address decides.
CPU_INDEX := https://download.pytorch.org/whl/cpu
ASK := import urllib.request as u; u.urlopen("$(CPU_INDEX)/torch/", timeout=4)
TORCH_INDEX ?= $(shell [ `uname -s` = Linux ] && ! command -v nvidia-smi >/dev/null && \
	timeout 5 $(PYTHON) -c '$(ASK)' 2>/dev/null && echo $(CPU_INDEX))

.PHONY: demo test check browser shots notebooks bench lint clean

demo: .venv/.core  ## a real 135M model learns in a few minutes: make demo ARGS="--steps 8"
	$(BIN)/minigrpo demo $(ARGS)

test: lint browser  ## all that CI runs
	$(BIN)/pytest -m "not browser"

check: lint  ## the same without the slow tests
	OMP_NUM_THREADS=1 $(BIN)/pytest -n 2 --dist loadfile -m "$(FAST)"

browser: .venv/.dev  ## the panel in a browser; without one they are skipped (Debian: apt-get install chromium)
	OMP_NUM_THREADS=1 $(BIN)/pytest -n 2 --dist loadfile -m browser -rs $(ARGS)

shots: .venv/.dev  ## pictures of every tab, light and dark, wide and narrow, into shots/
	$(BIN)/python tests/browser/shots.py $(ARGS)

notebooks: .venv/.dev  ## every notebook as it stands, on the real model: minutes each
	$(BIN)/pytest --nbmake --nbmake-timeout=1800 -p no:cacheprovider notebooks

bench: .venv/.dev  ## the panel's budgets, on a machine that does nothing else
	$(BIN)/python benchmarks/panel.py $(ARGS)

lint: .venv/.dev
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

.venv/.core: EXTRAS := [ui]
.venv/.dev: EXTRAS := [dev,ui,notebooks]
.venv/.core .venv/.dev: pyproject.toml constraints.txt
	@echo "installing into .venv: about 390 MB without a GPU, several GB with one; this takes some minutes"
	@$(PYTHON) -m venv .venv
	@index='$(TORCH_INDEX)'; $(BIN)/python -m pip install --disable-pip-version-check -q -c constraints.txt \
		$${index:+--extra-index-url $$index} -e '.$(EXTRAS)'
	@touch .venv/.core $@

clean:  ## runs/ stays
	rm -rf .venv build dist .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
	find minigrpo tests -name __pycache__ -prune -exec rm -rf {} +
