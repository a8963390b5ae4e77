"""Why a training failed: the first fault in its logs, by what is known of faults. Text in, a verdict out.

`scan` finds the places of a log that tell of errors, `reading` makes lines of them, `events` knows which
faults they are by the tables (`knowledge`), `advice` and `apis` what the log itself says of a remedy, `judging` says
which one was first."""
