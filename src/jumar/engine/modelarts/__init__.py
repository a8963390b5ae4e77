"""Jobs on ModelArts, with the account of the person whose server this is."""
