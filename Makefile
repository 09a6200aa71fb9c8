# The commands of the README: `make demo`, `make test` and `make test-stacks`. Everything is installed into .venv.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
TORCH := $(VENV)/.torch
READY := $(VENV)/.ready

.DEFAULT_GOAL := help

.PHONY: help
help:  ## Show what there is to make
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(INSTALLED): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --editable '.[report,sklearn]'
	touch $(INSTALLED)

$(TORCH): $(INSTALLED)
	$(BIN)/python -m pip install --quiet --upgrade pip  # which knows groups
	$(BIN)/python -m pip install --quiet --group torch
	touch $(TORCH)

$(READY): $(TORCH)
	$(BIN)/python -m pip install --quiet --group dev --group docs --group stacks
	touch $(READY)

.PHONY: install
install: $(READY)  ## Create .venv and install the library with its development tools

.PHONY: demo
demo: $(INSTALLED)  ## Watch the schemes of the paper race the default one on 30 real processes (about 2 minutes)
	$(BIN)/erasurehead compare --data amazon --workers 30 --steps 30 --delays 'exponential(mean=0.3, seed=0)' \
		-s uncoded -s 'exact(load=3)' -s 'erasurehead(load=3, wait_for=11)' -s adaptive \
		--target auc=0.84 --engine processes --out runs/demo --overwrite

# MNIST where ERASUREHEAD_DATA names a folder with mnist/*.gz, or the folder beside this one has it; else other digits.
.PHONY: demo-networks
demo-networks: $(TORCH)  ## Watch ten ranks train a network beside DistributedDataParallel and one process (about a minute)
	$(BIN)/python benchmarks/networks.py --demo runs/demo-networks

# Tests run beside each other on 2 cores: more threads of BLAS would wait for each other. And the hundreds of
# processes that the tests start shall not compile the library anew, even where Python is told to keep no bytecode.
test test-quick test-stacks test-thorough: export OPENBLAS_NUM_THREADS := 1
test test-quick test-stacks test-thorough: export OMP_NUM_THREADS := 1
unexport PYTHONDONTWRITEBYTECODE

# Two more than there are cores: those that come first, of real engines, wait for processes for most of their time.
TEST := $(BIN)/python -m pytest -q -n 4 --dist loadgroup --no-loadscope-reorder
# None of the quick ones waits for anything.
QUICK := $(subst -n 4,-n 2,$(TEST))
# Tests that start PyTorch, JAX, Ray or a browser, or build the site, which take as long as all others: run by themselves, within a
# time of their own.
STACKS := tests/torch tests/jax tests/decompile tests/cli/test_decompile.py \
	$(addprefix tests/problems/test_,decompiled.py differentiable_engines.py jax_problem.py torch_problem.py) \
	$(addprefix tests/engines/test_,ray.py ray_hosts.py) tests/watch/test_browser.py tests/trackers/test_packages.py \
	$(addprefix tests/docs/test_,build.py notebooks.py site.py stack_snippets.py stack_tutorials.py)
# Where the tests are that measure time: the others need not be collected for them.
ALONE_IN := $(shell grep -rl --include='*.py' 'mark\.alone' tests)
ALONE := $(BIN)/python -m pytest -q -m alone

# Once, before several processes import it at the same time and each compiles all of it.
COMPILE = $(BIN)/python -m compileall -q -j 2 src \
	&& $(BIN)/python -c "from importlib import import_module; list(map(import_module, '$(KERNELS)'.split()))"
KERNELS = $(shell grep -rl --include='*.py' '_internal.jit import' src | sed 's,^src/,,; s,/,.,g; s,\.py$$,,')

.PHONY: test
test: $(READY)  ## Run the whole test suite but for test-stacks, on 2 cores
	$(COMPILE)
	$(TEST) -m 'not alone' $(addprefix --ignore=,$(STACKS))
	$(ALONE) $(filter-out $(STACKS) $(addsuffix /%,$(STACKS)),$(ALONE_IN))

.PHONY: test-stacks
test-stacks: $(READY)  ## Run the tests with PyTorch, JAX, Ray and a browser, and of the site, within forty minutes
	$(COMPILE)
	$(TEST) -m 'not alone' --session-timeout=2400 $(STACKS)
	$(ALONE) --session-timeout=300 $(filter $(STACKS) $(addsuffix /%,$(STACKS)),$(ALONE_IN))

.PHONY: test-quick
test-quick: $(READY)  ## Run the quick part of the tests, on 2 cores
	$(COMPILE)
	$(QUICK) -m 'not slow and not processes and not alone'

.PHONY: test-thorough
test-thorough: $(READY)  ## Run the whole test suite with many more random examples (hours)
	$(COMPILE)
	$(TEST) -m 'not alone' --hypothesis-profile thorough
	$(ALONE) $(ALONE_IN)

# The site without what its notebooks and figures show, which takes a tenth of the time: what names nothing is found all the same.
UNRUN := -D plot_gallery=0 -D nb_execution_mode=off

.PHONY: check
check: $(READY)  ## Check style, formatting, links, references, spelling and types
	$(BIN)/ruff check src tests benchmarks docs
	$(BIN)/ruff format --check src tests benchmarks docs
	$(BIN)/python tests/prose.py
	$(BIN)/sphinx-build -W --keep-going -q -t without_source -b dummy $(UNRUN) docs docs/_build/checked
	$(BIN)/pyright

.PHONY: wheel
wheel: $(READY)  ## Build the wheel, check it, and try it in an empty environment for each extra (minutes, 2 GB)
	$(BIN)/python -m pip install --quiet --group wheel
	$(BIN)/python tests/wheel.py

.PHONY: size
size: $(READY)  ## Show how large each room of the house is
	$(BIN)/python tests/size.py

.PHONY: format
format: $(READY)  ## Format the code
	$(BIN)/ruff check --fix-only --quiet src tests benchmarks docs
	$(BIN)/ruff format src tests benchmarks docs

.PHONY: bench
bench: $(READY)  ## Run every benchmark, and draw the figures of README and docs anew
	$(BIN)/python benchmarks/run_all.py

.PHONY: docs
docs: $(READY)  ## Build the documentation into docs/_build/html
	$(BIN)/sphinx-build -W -b html docs docs/_build/html

.PHONY: links
links: $(READY)  ## Ask every address elsewhere that the documentation names (takes a network)
	$(BIN)/sphinx-build -q -t without_source -b linkcheck $(UNRUN) docs docs/_build/links

.PHONY: clean
clean:  ## Remove everything that can be made again
	rm -rf $(VENV) docs/_build docs/pictures .pytest_cache .ruff_cache .hypothesis
