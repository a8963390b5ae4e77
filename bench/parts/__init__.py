"""What benchmarks share: rivals started by hand, and numbers in words."""
