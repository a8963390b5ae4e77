"""One host for many people: installing a site, and what is where on it."""
