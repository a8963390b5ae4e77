"""How the simulated plug-in works; nothing here has a name of the real one."""
