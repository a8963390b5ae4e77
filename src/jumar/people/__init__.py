"""Who may use the site: accounts, passwords, tokens."""
