"""Python environments for NPUs: plan what fits, create it, check what is installed."""
