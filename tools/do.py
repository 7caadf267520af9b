"""Every command of the project: `python3 tools/do.py --help`.

The file itself is written so that any Python 3 can read it, for an old one has to get as far as the sentence below;
the work is done in the modules beside it. None of them needs more than the standard library.
"""

import os
import sys

if sys.version_info < (3, 11) or sys.version_info >= (3, 14):
    sys.exit(
        "This project needs Python 3.11, 3.12 or 3.13, and this is Python %d.%d: "
        "start it with another one, for example `python3.12 tools/do.py lab`." % sys.version_info[:2]
    )

# Started as a script, Python looks for modules in this folder only.
sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from tools.commands import main

if __name__ == "__main__":
    sys.exit(main())
