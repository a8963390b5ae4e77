"""What is installed on this machine and whether it fits together: doctor and environments."""
