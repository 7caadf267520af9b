"""An object's storage: key-value, SQL and the alarm, on one SQLite database an object."""

from durable_mini.storage.api import DurableObjectStorage
from durable_mini.storage.database import Database

__all__ = ["Database", "DurableObjectStorage"]
