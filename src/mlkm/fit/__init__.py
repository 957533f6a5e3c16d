"""From what the user asked for to fitted machines."""
