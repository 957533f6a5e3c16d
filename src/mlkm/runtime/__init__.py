"""What every part of the package runs on: checks, seeds, threads, progress, memory, deadlines, whole files."""
