"""Cloudflare Durable Objects in deterministic virtual time, for learning by breaking them."""

from durable_mini.clock import Date, clearInterval, clearTimeout, scheduler, setInterval, setTimeout, spin
from durable_mini.combine import all_settled, gather, race
from durable_mini.console import console
from durable_mini.draws import Exponential, Uniform
from durable_mini.errors import DataCloneError, DeadlockError, Error, LimitError, RangeError, ThrownText, WorldError
from durable_mini.faults import Fault, FaultPlan
from durable_mini.http import Request, Response, fetch
from durable_mini.ids import DurableObjectId
from durable_mini.limits import Limits
from durable_mini.objects import DurableObject, Namespace, Stub
from durable_mini.promise import Promise
from durable_mini.runs import AlarmInvocationInfo
from durable_mini.services import Answer, Service
from durable_mini.state import DurableObjectState
from durable_mini.storage.api import DurableObjectStorage
from durable_mini.storage.transaction import DurableObjectTransaction
from durable_mini.trace import Event, Trace
from durable_mini.world import World

__all__ = [
    "AlarmInvocationInfo",
    "Answer",
    "DataCloneError",
    "Date",
    "DeadlockError",
    "DurableObject",
    "DurableObjectId",
    "DurableObjectState",
    "DurableObjectStorage",
    "DurableObjectTransaction",
    "Error",
    "Event",
    "Exponential",
    "Fault",
    "FaultPlan",
    "LimitError",
    "Limits",
    "Namespace",
    "Promise",
    "RangeError",
    "Request",
    "Response",
    "Service",
    "Stub",
    "ThrownText",
    "Trace",
    "Uniform",
    "World",
    "WorldError",
    "all_settled",
    "clearInterval",
    "clearTimeout",
    "console",
    "fetch",
    "gather",
    "race",
    "scheduler",
    "setInterval",
    "setTimeout",
    "spin",
]
