"""The vendor's world: CANN's variables, rank tables, hccn."""
