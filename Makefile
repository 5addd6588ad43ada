# Commands of Plimsoll. `make` or `make help` lists them.
PYTHON ?= python3
VENV := .venv/bin
WORKLOAD ?=
ONCE ?=
DRILL ?=
BENCH ?=
FILE ?=
TRACES ?=
ENGINE ?=
QUOTA ?=
JSON ?=
FRESH ?=
PACKING ?=
RUN ?=
DRY ?=
CAP ?=
USD ?=

# A person's text reaches programs through the environment, never as a part of a command; make does not expand it either.
$(foreach name,WORKLOAD ONCE DRILL BENCH FILE TRACES ENGINE QUOTA JSON FRESH PACKING RUN DRY CAP USD,$(eval override $(name) := $$(value $(name))))
export WORKLOAD ONCE DRILL BENCH FILE TRACES ENGINE QUOTA JSON FRESH PACKING RUN DRY CAP USD

.DEFAULT_GOAL := help
.PHONY: help run plan stop reap cancel raise-budget test test-fast drills bench gpu-check lint docs check-workload pins wheel setup setup-tests

help:  ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup:
	@$(PYTHON) -m stack.environment --profile run

setup-tests:
	@$(PYTHON) -m stack.environment --profile test

# The EC2 double is a part of the tests.
run: $(if $(filter ec2-local,$(ENGINE)),setup-tests,setup)  ## start the stack and run a workload: WORKLOAD=digits, ENGINE=ec2-local, ONCE=1 stops all at the end, DRILL=0|1
	@$(VENV)/python -m stack.run --workload="$$WORKLOAD" --drill="$$DRILL" --engine="$$ENGINE" $(if $(filter-out 0,$(ONCE)),--once)

plan: setup  ## the best plan, without Airflow: WORKLOAD=digits, ENGINE=any, QUOTA=p=96, FRESH=1; or PACKING=file; JSON=1
	@if [ -n "$$PACKING" ]; then \
		$(VENV)/python -m stack.plan_packing $(if $(filter-out 0,$(JSON)),--json) -- "$$PACKING"; \
	else \
		$(VENV)/python -m stack.plan --workload="$$WORKLOAD" --engine="$$ENGINE" --quota="$$QUOTA" $(if $(filter-out 0,$(JSON)),--json) $(if $(filter-out 0,$(FRESH)),--fresh); \
	fi

stop:  ## end everything that make run has started, and nothing else
	@if [ -x $(VENV)/python ]; then $(VENV)/python -m stack.stop; else echo "Nothing to stop: there is no environment."; fi

reap: setup  ## end what is rented and has no right to be there: DRY=1 only reports, CAP=50 leases at most; JSON=1
	@$(VENV)/python -m stack.reap $(if $(filter-out 0,$(DRY)),--dry-run) $${CAP:+--cap="$$CAP"} $(if $(filter-out 0,$(JSON)),--json)

cancel: setup  ## end a run in any state and prove that nothing of it is left: RUN=<dag_id>/<run_id>; JSON=1
	@$(VENV)/python -m stack.cancel --run="$$RUN" $(if $(filter-out 0,$(JSON)),--json)

raise-budget: setup  ## let a run that has spent its budget go on: RUN=<dag_id>/<run_id> USD=<in all>
	@$(VENV)/python -m stack.raise_budget --run="$$RUN" --usd="$$USD"

test: setup-tests  ## linters, types and all tests, with the minutes of each part
	@$(VENV)/python -m stack.checks test

test-fast: setup-tests  ## linters, types and unit tests
	@$(VENV)/python -m stack.checks test-fast

drills: setup-tests  ## the full sets of crash drills
	@$(VENV)/python -m stack.checks drills

gpu-check: setup-tests  ## tests that need a GPU; says so loudly where there is none
	@$(VENV)/python -m stack.gpu_check

lint: setup-tests  ## linters and types alone
	@$(VENV)/python -m stack.checks lint

bench: setup-tests  ## one benchmark: BENCH=dag_parse
	@if [ -n "$$BENCH" ] && [ -f "tests/benchmarks/$$BENCH.py" ]; then \
		if grep -q '^ENVIRONMENT = "bench"' "tests/benchmarks/$$BENCH.py"; then \
			$(PYTHON) -m stack.environment --profile bench && python=.venv-bench/bin/python || exit 1; \
		else python=$(VENV)/python; fi; \
		PYTHONPATH=.:plugins $$python "tests/benchmarks/$$BENCH.py"; \
	else \
		echo "Usage: make bench BENCH=<name>, one of:" $$(ls tests/benchmarks 2>/dev/null | sed -n 's/\.py$$//p'); exit 64; \
	fi

docs: setup-tests  ## write the generated pages of docs/reference again
	@$(VENV)/python -m stack.reference

check-workload: setup  ## check one workload file: FILE=path/to/file.yaml
	@$(VENV)/python -m include.jobs.check_workload $${FILE:+"$$FILE"}

pins: setup-tests  ## resolve requirements/*.in to pins again
	@$(VENV)/python -m stack.pins

wheel: setup-tests  ## build the worker wheel (agent and jobs) into dist/
	@$(VENV)/python -m build --wheel --no-isolation
