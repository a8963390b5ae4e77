"""States and reasons in the reader's language: the same sentences in the terminal and on the pages."""
