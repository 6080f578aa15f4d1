"""Where buckets are built: one function per bucket, run here or elsewhere, with the same result."""
