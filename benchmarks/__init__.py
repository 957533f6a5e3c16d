"""What is measured, against whom, and on which data; see `python -m benchmarks --help`."""
