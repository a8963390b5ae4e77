"""Jobs of a site: on this machine, each as its submitter, by root's program."""
