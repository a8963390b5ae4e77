"""The REST API, the web pages and the process that serves them."""
