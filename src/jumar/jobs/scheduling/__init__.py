"""Who starts when, and why not yet: pure functions of the line, the cards, what runs and the time.

`schedule` decides, `forecast` foresees and explains, `turns` keeps the order, `preemption` chooses who gives way, `simulation` runs the
scheduler ahead in time. Nothing here touches a database, a process or a clock."""
