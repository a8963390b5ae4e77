"""Several nodes that run one job together."""
