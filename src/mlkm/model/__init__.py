"""What a machine is: feature maps, their prior, layers of weights, and their derivatives."""
