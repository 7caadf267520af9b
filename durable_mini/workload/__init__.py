"""Clients: how they call objects, and what they do when a call fails."""

from durable_mini.workload.retrying import Retries, retrying

__all__ = ["Retries", "retrying"]
