"""What all objects of a world share."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from durable_mini.alarms import Scheduler
    from durable_mini.capacity import Capacity
    from durable_mini.faults import Injector
    from durable_mini.ids import DurableObjectId
    from durable_mini.limits import Limits
    from durable_mini.loop import Loop
    from durable_mini.objects import Namespace
    from durable_mini.record import Record
    from durable_mini.services import OutsideWorld
    from durable_mini.storage.disk import Disk


class Realm:
    """What every object of a world shares."""

    def __init__(
        self,
        loop: Loop,
        scheduler: Scheduler,
        *,
        limits: Limits,
        seed: int,
        eviction_us: int,
        commit_us: int,
        keep_alarm: bool,
        watch: dict[str, str],
        reverse_unordered_selects: bool,
        disk: Disk | None,
        new_record: Callable[[Namespace[Any], DurableObjectId, str], Record],
        generation: int,
        outside: OutsideWorld,
        capacity: Capacity,
        restart_process: Callable[[float], None],
    ) -> None:
        self.loop = loop
        self.scheduler = scheduler
        self.limits = limits
        self.seed = seed
        self.eviction_us = eviction_us
        self.commit_us = commit_us
        """How long a commit takes; 0 commits at the end of the turn, as the real runtime does."""
        self.keep_alarm = keep_alarm
        self.reverse_unordered_selects = reverse_unordered_selects
        self.watch = watch
        """Queries by name that are run after each commit, for the trace."""
        self.unseen: dict[str, str] = {}
        """The watched queries that failed when last tried, and why."""
        self.disk = disk
        """Where the objects' files are; None for a world in memory."""
        self.new_record = new_record
        """Makes what the world keeps of an object: its namespace, id and label are given."""
        self.generation = generation
        """Which process of its folder this is, from 0, which it is in memory too: each draws other ids and numbers."""
        self.outside = outside
        """The services that objects call."""
        self.capacity = capacity
        """What the objects' events cost, and where they run."""
        self.faults: Injector | None = None
        self.restart_process = restart_process
        """Kills the process and starts it again after as many ms: a fault does that."""
        self.down = False
        """The process is away (a restart with downtime): calls are refused."""
        self.draining = False
        """The process is about to stop: clients' calls are refused, the rest goes on."""
