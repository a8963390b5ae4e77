"""Jobs on a Kubernetes cluster: so far what would be given to it."""
