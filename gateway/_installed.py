"""Entry point of the installed wheel, shipped as ``trunkline/__init__.py``.

The wheel installs one importable name. The packages of the checkout lie inside it and become importable,
by the names they have in the checkout, only in a process that imports ``trunkline``.
"""

import sys
from pathlib import Path

# No search path, so no ``trunkline.gateway`` beside ``gateway``: a module cannot be loaded under two names.
__path__: list[str] = []

sys.path.insert(0, str(Path(__file__).parent))


def main() -> int:
    """Run the command line and return its exit code."""
    from gateway.__main__ import main as run

    return run()
