"""The command line, which needs the extra `cli`; without it, one sentence says so."""

import sys


def main() -> None:
    """Run the command `mlkm`."""
    try:
        from .commands import app
    except ModuleNotFoundError as missing:
        sys.exit(f"The mlkm command needs the package {missing.name!r}: install it with  pip install 'mlkm[demo]'.")
    except KeyboardInterrupt:
        sys.exit(130)
    app()
