"""From names to shards: which shard a name lies on, how even that is, what moves, and how many shards a load needs."""

from durable_mini.sharding.balance import Balance, balance, judge, moved
from durable_mini.sharding.functions import (
    FUNCTIONS,
    ShardFunction,
    hash31,
    hash31_code,
    mixed,
    mixed_code,
    rendezvous,
)
from durable_mini.sharding.keys import FAMILIES, japanese, padded, rooms, sequential, step10, uuids
from durable_mini.sharding.queue import Queue
from durable_mini.sharding.sizing import Sizing, sizing

__all__ = [
    "FAMILIES",
    "FUNCTIONS",
    "Balance",
    "Queue",
    "ShardFunction",
    "Sizing",
    "balance",
    "hash31",
    "hash31_code",
    "japanese",
    "judge",
    "mixed",
    "mixed_code",
    "moved",
    "padded",
    "rendezvous",
    "rooms",
    "sequential",
    "sizing",
    "step10",
    "uuids",
]
