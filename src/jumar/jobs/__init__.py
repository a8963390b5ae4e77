"""The queue, the state machine and the database: the only room that joins others."""
