"""Tells people what became of their jobs, by webhooks of the chats they use."""
