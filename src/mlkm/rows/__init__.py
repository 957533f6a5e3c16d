"""What a fit sees of its data: distinct weighted rows, standardised."""
