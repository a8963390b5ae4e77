"""The hub's doors for stock clients: git, git-lfs, and those of Hugging Face. Raw ASGI, so that large
bodies stream both ways and paths are seen as they were sent."""
