"""Labs: a scenario to set, to break and to look at. Each is a module with a ``lab``.

from durable_mini.labs.single_alarm import lab
lab
"""
