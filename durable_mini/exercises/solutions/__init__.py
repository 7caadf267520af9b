"""Our own solutions; a learner finds them through ``exercise.solution()``."""
