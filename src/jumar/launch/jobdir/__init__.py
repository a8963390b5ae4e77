"""The job directory: its files, and reading them without believing them."""
