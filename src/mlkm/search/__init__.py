"""The decisions of "auto": the plan of a fit, and the search for kernels, their parameters and variances."""
