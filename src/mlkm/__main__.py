"""`python -m mlkm` is the command line, where no program `mlkm` is on the path."""

from .cli import main

if __name__ == "__main__":
    main()
