"""One node of an attempt as a pod of a Kubernetes cluster."""
