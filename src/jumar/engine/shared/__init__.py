"""What every engine uses whose attempts run from a job directory that the server can reach."""
