"""What "auto" means."""
