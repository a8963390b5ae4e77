"""Jobs as pods of a Kubernetes cluster."""
