"""`mcgpo view`: all pairs of a build in the browser, from this machine to this machine."""
