"""What happens before the ranks start: code, requirements, data, platform files."""
