# Works with GNU make 3.81 (macOS) and later. Variables: PYTHON, DDMIP_TORCH_INDEX (see tools/setup_env.sh).
PY := .venv/bin/python
# The oldest code of torch, MKL, OpenBLAS and numpy, on one thread: it rounds unlike a recent processor's own.
PLAIN := ATEN_CPU_CAPABILITY=default MKL_CBWR=COMPATIBLE OMP_NUM_THREADS=1
ifeq ($(shell uname -m),x86_64)
PLAIN += OPENBLAS_CORETYPE=Prescott NPY_DISABLE_CPU_FEATURES="X86_V3 X86_V4"
else
PLAIN += OPENBLAS_CORETYPE=ARMV8
endif
.DEFAULT_GOAL := help
.PHONY: help setup book book-full site course student grade results test test-long test-paths test-versions lab bench lint coverage mutations lock dist links nightly clean distclean

help: ## list these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: ## create or repair the environment in .venv
	@bash tools/setup_env.sh

book: setup ## execute the chapters that changed, build the HTML, print where to open it
	@$(PY) -m tools.build_book

book-full: setup ## the same with every chapter in its full profile (hours)
	@$(PY) -m tools.build_book --profile full

site: book ## the book as a site for any web server, in _build/site
	@$(PY) -m tools.site

course: setup ## slides, student notebooks, quizzes and syllabi for a class (WEEKS=6 or 12: one syllabus only)
	@$(PY) -m tools.course $(if $(WEEKS),--weeks $(WEEKS))

student: setup ## copies of all chapters without solutions, with self-checks, in _build/course/student
	@$(PY) -m tools.student

grade: setup ## run and grade a folder of student notebooks (FOLDER=...), table in _build/grades
	@$(PY) -m tools.grade "$(FOLDER)"

results: setup ## all tables and figures of the experiments, from the stored rows
	@$(PY) -m tools.results

test: ## set-up, lint, unit tests, every notebook, the book build and its checks; then a table of what failed
	@start=$$(date +%s); bash tools/setup_env.sh && \
	$(PY) -m tools.run_tests --setup-seconds $$(( $$(date +%s) - start ))

test-long: setup ## the tests that take minutes
	@$(PY) -m pytest -m long tests

test-paths: setup ## unit tests and notebooks once more, rounded as on the plainest processor
	@$(PLAIN) $(PY) -m tools.run_tests --only unit
	@$(PLAIN) $(PY) -m tools.run_tests --only notebooks

test-versions: setup ## the library's unit tests with the lowest and the newest requirements, for each Python (hours)
	@$(PY) -m tools.test_versions

lab: setup ## open JupyterLab on copies of the chapters, in _build/lab
	@$(PY) -m tools.readable
	@$(PY) -m jupyterlab --notebook-dir=_build/lab

bench: setup ## run the benchmarks
	@$(PY) -m tools.bench

lint: setup ## ruff (notebooks included) and mypy
	@$(PY) -m tools.run_tests --only lint

coverage: setup ## which lines of the library the unit tests run; fails under 90 %
	@rm -rf _build/coverage && mkdir -p _build/coverage
	@$(PY) -m coverage run -m pytest -q -m "not long" -n 2 tests/unit
	@$(PY) -m coverage combine -q && $(PY) -m coverage report

mutations: setup ## break the library on purpose, one formula at a time; a test must notice
	@$(PY) tests/mutations.py

lock: setup ## rewrite requirements.lock from pyproject.toml and book/pyproject.toml
	@$(PY) -m tools.lock

dist: setup ## the wheel and the source distribution of the library, in _build/dist
	@rm -rf _build/dist
	@.venv/bin/uv build --quiet --no-build-isolation --python $(PY) --out-dir _build/dist
	@ls _build/dist

nightly: setup ## small experiments in full, from nothing, into _build/nightly (a quarter of an hour)
	@$(PY) -m tools.nightly

links: setup ## ask every address outside the book whether it still answers (needs the network)
	@$(PY) -m tools.external_links

clean: ## remove everything that was built; keep .venv
	@rm -rf _build build book/build *.egg-info book/*.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	@find book ddmip_lib experiments tests tools -name __pycache__ -o -name .ipynb_checkpoints | xargs rm -rf

distclean: clean ## remove .venv as well
	@rm -rf .venv
