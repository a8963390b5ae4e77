"""Files that are not Python modules: shell, configuration, documents, notebooks, requirements."""
