"""What every request passes: limits, text, identity."""
