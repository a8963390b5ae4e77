"""Changes that restructure a script on request: many cards, ModelArts, Xihe."""

from dataclasses import replace

from jumar.port.tree import TreeResult


def apply(result: TreeResult) -> TreeResult:
    """Do what the options ask for, on top of the port."""
    return replace(result)
