"""A function at every point of a grid, in this thread or on any executor."""

from durable_mini.sweep.rows import Rows
from durable_mini.sweep.sweep import Sweep, sweep

__all__ = ["Rows", "Sweep", "sweep"]
