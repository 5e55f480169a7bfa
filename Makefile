# make demo    exports the example models, verifies them and prints what came out
# make test    everything that must hold before a change lands
# make ops     every operator of torch's database in every dtype, and docs/operators.md from what it finds
# make models  the models that people bring, and docs/models.md from what it finds
# make opsets  the operator tests at every opset, which make test runs at a third of them
# make fuzz    random programs, N of them from SEED, each exported and run at many sizes and on other data
# make backend the ONNX project's own tests of backends, and ours
# make docs    the pages of docs/ as a site in build/site, strictly
# make wheel   wheel and sdist in dist/, and the wheel installed and used away from the source
# make quant-sources  Brevitas, ModelOpt and linger in a virtual environment, and what they quantize exported
# make torch VERSION=2.15.0  the tests with another version of torch; TESTS names a part of them
# make bench   the time of an export against its limit and against torch's own exporters
# make bench-dynamic  the same with dynamic axes, in CPU seconds
# make bench-latency  how fast the files run, beside those of torch's own exporters
#
# Each sets itself up: a virtual environment in .venv with the versions of constraints.txt. What demo needs comes first;
# packages for tests and models are added by the first target that needs them.

PYTHON ?= python3
WORKERS ?= 2

VENV ?= .venv
TORCH ?= $(shell sed -n 's/^torch==//p' constraints.txt)
TESTS ?=
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
CONSTRAINTS := $(VENV)/constraints.txt
PACKAGE := $(VENV)/.package-installed
INSTALLED := $(VENV)/.installed
ACCEPTANCE := ../shared/acceptance
BENCH_PACKAGES := build/bench-packages
DOCS := build/docs-venv
BUILDER := build/builder-venv
QUANT_SOURCES := build/quant-sources-venv

.PHONY: demo test lint types unit acceptance backend ops models opsets fuzz docs wheel quant-sources torch
.PHONY: bench bench-dynamic bench-latency clean .venv

demo: $(PACKAGE)
	$(BIN)/python -m examples.demo

test: lint types unit acceptance

lint: $(INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(INSTALLED)
	$(BIN)/mypy --strict

# One thread for each worker: the workers share the cores.
unit acceptance: export OMP_NUM_THREADS := 1

unit: $(INSTALLED)
	$(BIN)/python -m pytest -n $(WORKERS) $(TESTS)

# The tests that tests/acceptance.txt names as reached, in a process of their own. Nothing is written into their folder.
acceptance: export PYTHONDONTWRITEBYTECODE := 1
acceptance: $(INSTALLED)
	@if [ -d $(ACCEPTANCE) ]; then \
		echo "acceptance tests of tests/acceptance.txt"; \
		sed -e 's/[[:space:]]*#.*//' -e '/^$$/d' -e 's|^|$(ACCEPTANCE)/|' tests/acceptance.txt | tr '\n' '\0' \
			| xargs -0 -r $(BIN)/python -m pytest -n $(WORKERS) -p no:cacheprovider; \
	else \
		echo "acceptance tests skipped: no $(ACCEPTANCE) here"; \
	fi

# The long form of tests/ops/opinfo: about ten minutes on two cores.
ops: export OMP_NUM_THREADS := 1
ops: $(INSTALLED)
	$(BIN)/python -m tests.ops.opinfo.sweep --workers $(WORKERS) --write docs/operators.md \
		--ship src/onnxport/cli/operators.json

# Over a hundred architectures, each in a process of its own.
models: export OMP_NUM_THREADS := 1
models: $(INSTALLED)
	$(BIN)/python -m tests.models.run --workers $(WORKERS) --write docs/models.md

opsets: export OMP_NUM_THREADS := 1
opsets: export EVERY_OPSET := yes
opsets: $(INSTALLED)
	$(BIN)/python -m pytest -n $(WORKERS) tests/ops

# The programs that CI tries are a hundred of these.
N ?= 300
SEED ?= 0
fuzz: export OMP_NUM_THREADS := 1
fuzz: $(INSTALLED)
	$(BIN)/python -m tests.fuzz.run --count $(N) --seed $(SEED) --workers $(WORKERS)

backend: $(INSTALLED)
	$(BIN)/python -m pytest tests/backend

# sdist, and from it the wheel. What a user of the wheel does first: doctor, README's example, a look at its file.
wheel: export PYTHONPATH :=
wheel: $(BUILDER)/.installed
	rm -rf dist
	$(BUILDER)/bin/python -m build --outdir dist .
	away=$$(mktemp -d) && trap 'rm -rf "$$away"' EXIT && set -e && $(PYTHON) -m venv $$away/venv \
		&& $$away/venv/bin/python -m pip --disable-pip-version-check install --constraint constraints.txt dist/*.whl \
		&& sed -n '/^```python$$/,/^```$$/{/^```/!p}' README.md > $$away/readme.py && cd $$away \
		&& venv/bin/onnxport doctor && venv/bin/python -I readme.py && venv/bin/onnxport inspect model.onnx

$(BUILDER)/.installed: constraints.txt
	$(PYTHON) -m venv $(BUILDER)
	$(BUILDER)/bin/python -m pip --disable-pip-version-check --quiet install --constraint constraints.txt build
	touch $@

# Libraries that hold their own versions of what the tests need. What cannot be imported is skipped with the reason.
# ModelOpt imports requests and huggingface_hub without asking for them.
quant-sources: $(QUANT_SOURCES)/.installed
	$(QUANT_SOURCES)/bin/python -m pytest -rs tests/quant/test_other_libraries.py

$(QUANT_SOURCES)/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(QUANT_SOURCES)
	sed 's/^torch==.*/torch==$(TORCH)/' constraints.txt > $(QUANT_SOURCES)/constraints.txt
	$(QUANT_SOURCES)/bin/python -m pip --disable-pip-version-check install \
		--constraint $(QUANT_SOURCES)/constraints.txt torch==$(TORCH)
	$(QUANT_SOURCES)/bin/python -m pip --disable-pip-version-check install \
		--constraint $(QUANT_SOURCES)/constraints.txt --editable '.[test]' brevitas nvidia-modelopt onnxoptimizer pylinger \
		requests huggingface-hub
	touch $@

# A virtual environment for each version: build/torch-2.15.0. What pip installs may be a CUDA build of several GB.
torch:
	@test -n "$(VERSION)" || { echo "which version? make torch VERSION=2.15.0"; exit 2; }
	$(MAKE) unit acceptance VENV=build/torch-$(VERSION) TORCH=$(VERSION)

# mkdocs-material ends in May 2027: its successor has to take the same mkdocs.yml.
docs: export NO_MKDOCS_2_WARNING := 1
docs: $(DOCS)/.installed
	$(DOCS)/bin/mkdocs build --strict --quiet
	$(DOCS)/bin/zensical build --strict

$(DOCS)/.installed: constraints.txt
	$(PYTHON) -m venv $(DOCS)
	$(DOCS)/bin/python -m pip --disable-pip-version-check --quiet install --constraint constraints.txt mkdocs-material zensical
	touch $@

# onnxscript, which torch.onnx.export(dynamo=True) needs, and onnxslim, which the benchmark counts nodes with, stay out of
# .venv: the tests show that onnxport does without.
bench: $(INSTALLED) $(BENCH_PACKAGES)/.installed
	PYTHONPATH=$(BENCH_PACKAGES) $(BIN)/python -m benchmarks.export_time
	$(BIN)/python -m benchmarks.backend_time
	$(BIN)/python -m benchmarks.depth
	$(BIN)/python -m benchmarks.memory
	$(BIN)/python -m benchmarks.recorded_memory

# Each model in a process of its own, on one thread.
bench-dynamic: export OMP_NUM_THREADS := 1
bench-dynamic: $(INSTALLED)
	$(BIN)/python -m benchmarks.dynamic_axes

# One model at a time, in a process of its own, on one thread.
bench-latency: export OMP_NUM_THREADS := 1
bench-latency: $(INSTALLED) $(BENCH_PACKAGES)/.installed
	PYTHONPATH=$(BENCH_PACKAGES) $(BIN)/python -m benchmarks.latency --json build/latency.json

$(BENCH_PACKAGES)/.installed: constraints.txt | $(INSTALLED)
	$(PIP) install --constraint $(CONSTRAINTS) --no-deps --upgrade --target $(BENCH_PACKAGES) onnxscript onnxslim
	touch $@

.venv: $(INSTALLED)

# torch and onnxport, and nothing else.
$(PACKAGE): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	sed 's/^torch==.*/torch==$(TORCH)/' constraints.txt > $(CONSTRAINTS)
	$(PIP) install --constraint $(CONSTRAINTS) torch==$(TORCH)
	$(PIP) install --constraint $(CONSTRAINTS) --editable .
	touch $@

$(INSTALLED): $(PACKAGE)
	$(PIP) install --constraint $(CONSTRAINTS) --editable '.[test,dev,models]'
	$(PIP) install --constraint $(CONSTRAINTS) --no-deps timm torchvision
	touch $@

clean:
	rm -rf build dist src/*.egg-info .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find src tests examples benchmarks -name __pycache__ -prune -exec rm -rf {} +
