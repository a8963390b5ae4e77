"""What the script itself shows of a fault that its log tells of: the code is parsed, never run.

`code` finds the files that a stack speaks of, `reading` parses them, `tree` walks in them, `checks` lists what is looked for, one
module per subject, `telling` puts what was found into the answer, and `bounds` ends what takes too long."""
