"""The internals of the simulated plug-in; no name here is one of the real plug-in."""
