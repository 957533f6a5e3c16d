"""Every table and figure of the paper at one command: `python -m paper --list`."""
