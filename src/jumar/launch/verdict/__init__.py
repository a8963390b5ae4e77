"""How ranks ended, in one verdict."""
