"""Python environments for NPUs: plan what fits, make it, check what is there."""
