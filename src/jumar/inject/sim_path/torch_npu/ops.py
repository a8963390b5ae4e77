"""Fused operators of the plug-in."""
__all__ = []
