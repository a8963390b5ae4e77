"""How patient a run is, unless somebody says otherwise."""

JOIN_LIMIT_S = 300.0
"""How long nodes wait for each other."""
HANG_LIMIT_S = 1800.0
"""How long all ranks may do nothing."""
