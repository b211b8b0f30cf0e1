"""Code shared by the experiments: losses and trials, training, choosing, drawing, reporting."""
