"""What "auto" decides: the plan of a fit, and the search for kernels, their parameters and variances."""
