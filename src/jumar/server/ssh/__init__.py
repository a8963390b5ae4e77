"""`ssh -p PORT JOB@HOST`: the stock client, into a running job. Only the protocol is spoken here; what a
client asks to run runs beside the job, as its user."""
