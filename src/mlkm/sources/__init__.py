"""Where rows come from: arrays, files and clusters, seen a piece at a time."""
