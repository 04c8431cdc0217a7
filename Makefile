PYTHON ?= python3
BIN := .venv/bin

.PHONY: help results bench quick test test-vllm test-real test-adapters lint docs pictures dist perf perf-ratios mutants
help:  ## Say what there is
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/'

bench:  ## Set up and play all environments with oracle, their own baselines and three agents that do not look; prints where the report is
	@$(PYTHON) scripts/setup.py bench
	$(BIN)/vagen bench

PROCESSES ?= 2
test:  ## Set up and run the tests, a file in one of two processes; PROCESSES=… for more, of some 3 GiB each
	@$(PYTHON) scripts/setup.py test
	PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -q -n $(PROCESSES) --dist loadfile

quick:  ## Lint and the core tests, without simulators, training and servers; under two minutes
	@$(MAKE) --no-print-directory lint
	PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -q -n $(PROCESSES) --dist loadfile -m "not sim" --ignore-glob="*svg*" tests/envs tests/rewards

test-vllm:  ## Run the tests of generation with vLLM, in an environment of their own
	@$(PYTHON) scripts/setup.py vllm
	PYTHONDONTWRITEBYTECODE= .venv-vllm/bin/python -m pytest -q tests/adapters/test_ppo_vllm.py

test-real:  ## Benchmark and train a pretrained language model in SmolVLM's architecture, with transformers and vLLM
	@$(PYTHON) scripts/setup.py real
	PYTHONDONTWRITEBYTECODE= .venv-vllm/bin/python -m pytest -q tests/experiments/test_real_model.py

test-adapters:  ## Test each adapter with its library, in environments of their own; ADAPTERS="openenv verl" for some
	$(PYTHON) scripts/test_adapters.py $(ADAPTERS)

lint:  ## Style, types, the direction of imports, and functions that are too complex
	@$(PYTHON) scripts/setup.py test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python scripts/measure_house.py --complexity

PROTOCOLS := ladder-sokoban ladder-frozenlake frozenlake-short ladder-navigation ladder-primitiveskill ladder-svgreconstruction sample paper
results:  ## Play the scripted agents under each protocol of docs/results.md, verify the runs and add their rows: hours
	@$(PYTHON) scripts/setup.py bench
	for each in $(PROTOCOLS); do $(BIN)/vagen bench -p $$each --out runs/results/$$each && \
	    $(BIN)/vagen leaderboard add runs/results/$$each --to docs/results.md || exit 1; done

docs:  ## Build the documentation into site/; warnings are errors
	@$(PYTHON) scripts/setup.py test
	$(BIN)/python scripts/write_environment_pages.py --check
	PATH="$(CURDIR)/$(BIN):$$PATH" NO_MKDOCS_2_WARNING=1 DISABLE_MKDOCS_2_WARNING=true mkdocs build --strict

pictures:  ## Draw what README and the documentation show, from the present state
	@$(PYTHON) scripts/setup.py test
	for each in write_environment_pages draw_gallery draw_report; do $(BIN)/python scripts/$$each.py || exit 1; done

dist:  ## Build sdist and wheel into dist/; the same bytes each time
	@$(PYTHON) scripts/setup.py test
	SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) $(BIN)/python -m build --outdir dist .

PERF := $(BIN)/python -m pytest benchmarks/perf -o python_files="bench_*.py" -q --benchmark-disable-gc --benchmark-columns=median,iqr,rounds
perf:  ## Measure speeds on a quiet machine, and fail where a promise is missed by more than 1.3 times
	@$(PYTHON) scripts/setup.py test
	$(PERF)

perf-ratios:  ## Check the promised ratios alone, with a slack of two; what fails is measured once more
	@$(PYTHON) scripts/setup.py test
	$(PERF) --ratios --slack 2 || $(PERF) --ratios --slack 2

SAMPLE ?=
mutants:  ## Change the code a little at a time and count the changes that no test notices: hours, or some 20 minutes with SAMPLE=30 of each module
	@$(PYTHON) scripts/setup.py test
	$(BIN)/python scripts/mutants.py $(if $(SAMPLE),--sample $(SAMPLE)) --out build/mutants.md
