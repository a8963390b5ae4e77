"""Repositories of projects, models and data sets: rows, bare git folders, LFS objects."""
