"""What one update of the weights is: a gradient step, or an exact ridge solution."""
