"""How Jupyter is started for lessons and tests: repeatable, apart from the user's own Jupyter, and off the network."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from tools.environment import ROOT, venv_python

# What Jupyter keeps between starts (settings, open tabs, kernels' files).
STATE = ROOT / ".jupyter"

# Settings of the user's shell that would bring in packages, kernels or settings from elsewhere.
_ASTRAY = ("PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP", "JUPYTER_PATH", "JUPYTER_CONFIG_PATH", "JUPYTER_RUNTIME_DIR")


def jupyter_environment(venv: Path, state: Path = STATE) -> dict[str, str]:
    """The variables of every process that runs notebooks or tests; their folders and settings are made on the way."""
    profile = state / "ipython" / "profile_default"
    profile.mkdir(parents=True, exist_ok=True)
    # Else every kernel warns that it does not encrypt what never leaves the machine.
    (profile / "ipython_kernel_config.json").write_text('{"Application": {"log_level": 40}}\n', encoding="utf-8")
    environment = {key: value for key, value in os.environ.items() if key not in _ASTRAY}
    scripts = str(venv_python(venv).parent)
    environment.update(
        # Sets and dicts of strings iterate in one order, so that saved outputs can be compared.
        PYTHONHASHSEED="0",
        # Figures are saved as data, not as a copy of the plotting library.
        PLOTLY_RENDERER="plotly_mimetype",
        # The user's own Jupyter stays as it is, and none of its settings reaches the lessons.
        JUPYTER_CONFIG_DIR=str(state / "config"),
        JUPYTER_DATA_DIR=str(state / "data"),
        JUPYTER_PREFER_ENV_PATH="1",
        IPYTHONDIR=str(state / "ipython"),
        VIRTUAL_ENV=str(venv),
        PATH=os.pathsep.join([scripts, environment.get("PATH", "")]),
    )
    return environment


def lab_command(python: Path, folder: Path, first: str, extra: Sequence[str] = ()) -> list[str]:
    """The command that opens JupyterLab on a folder of notebooks, `first` in view."""
    command = [
        str(python),
        "-m",
        "jupyterlab",
        f"--ServerApp.root_dir={folder}",
        f"--LabApp.default_url=/lab/tree/{first}",
        # overrides.json there switches the news prompt and the extension manager off ...
        f"--LabApp.app_settings_dir={ROOT / 'tools' / 'jupyter'}",
        # ... and these keep the server itself from asking for news, updates and extensions.
        "--LabApp.news_url=None",
        "--LabApp.check_for_updates_class=jupyterlab.handlers.announcements.NeverCheckForUpdate",
        "--LabApp.extension_manager=readonly",
        # Only what went wrong, and the address, which is logged above every level.
        "--Application.log_level=ERROR",
    ]
    if sys.platform != "win32" and os.geteuid() == 0:
        # In a container there is often no other user.
        command.append("--ServerApp.allow_root=True")
    return [*command, *extra]
