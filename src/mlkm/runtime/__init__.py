"""Checks of arguments, seeds, threads, progress, memory, deadlines, records and files for all other rooms."""
