PYTHON ?= python3

.PHONY: lab test refresh bench setup

lab test refresh bench setup:
	@$(PYTHON) tools/do.py $@ $(ARGS)
