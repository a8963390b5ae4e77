"""ModelArts as its clients speak it: the signature, what they ask for, what they are told. Pure data."""
