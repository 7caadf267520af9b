"""Clients: how they call objects, and what they do when a call fails."""

from durable_mini.workload.keys import Keys, one_key, uniform_keys, zipf_keys
from durable_mini.workload.load import Load, closed_loop, open_loop
from durable_mini.workload.retrying import Retries, retrying

__all__ = [
    "Keys",
    "Load",
    "Retries",
    "closed_loop",
    "one_key",
    "open_loop",
    "retrying",
    "uniform_keys",
    "zipf_keys",
]
