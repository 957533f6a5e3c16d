"""The fit: it turns the parameters that the user gave and the training rows into fitted machines."""
