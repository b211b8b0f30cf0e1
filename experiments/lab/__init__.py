"""What the experiments share: settings to try, training them, choosing, drawing, reporting."""
