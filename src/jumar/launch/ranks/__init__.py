"""Which ranks run on this node: programs, variables, cards, cores."""
